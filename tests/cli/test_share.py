"""`referee share`: working, refusing and unreachable servers; keys stay out of git; a failure changes nothing."""

import subprocess
import tempfile
from pathlib import Path

import pytest
from dvc.repo import Repo

from pipeline.cli.main import main
from servers.loopback import free_ports
from servers.openssh import running_ssh
from servers.seaweedfs import running_s3


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with running_s3(tmp_path_factory.mktemp("s3")) as started:
        yield started


@pytest.fixture(scope="module")
def ssh():
    with tempfile.TemporaryDirectory() as folder, running_ssh(Path(folder)) as started:
        yield started


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """Change into an empty git and DVC repository, without keys in the environment."""
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.chdir(folder)
    subprocess.run(["git", "init", "--quiet"], check=True)
    Repo.init().close()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return folder


def read_configuration():
    """Return the texts of the tracked and of the local configuration."""
    local = Path(".dvc/config.local")
    return Path(".dvc/config").read_text(), local.read_text() if local.exists() else ""


@pytest.fixture
def refused(refused):
    """Return a function that runs `referee share`, which must fail without changes, and returns its error line."""

    def run(*arguments):
        before = read_configuration() if Path(".dvc").exists() else None
        line = refused(main, "share", *arguments)
        assert before is None or read_configuration() == before
        return line

    return run


def set_keys(monkeypatch, server, **changes):
    for name, value in {**server.credentials(), **changes}.items():
        monkeypatch.setenv(name, value)


def test_s3_keys_are_kept_out_of_git(repository, s3, monkeypatch, capsys):
    set_keys(monkeypatch, s3)
    url = ("s3://team/features", "--endpoint-url", s3.endpoint, "--region", "us-east-1")
    assert main(["share", *url, "--save-keys"]) == 0
    line = capsys.readouterr().out
    assert "s3://team/features can be read and written" in line
    assert "dvc push --run-cache && git add dvc.lock orders params.yaml suite.yaml .dvc/config && git commit" in line
    tracked, local = read_configuration()
    assert s3.endpoint in tracked
    assert "remote = team" in tracked
    for key in (s3.secret_key, s3.access_key):
        assert key in local
        assert key not in tracked
    assert Path(".dvc/config.local").stat().st_mode & 0o777 == 0o600
    status = subprocess.check_output(["git", "status", "--porcelain", "-uall"], text=True)
    assert "config.local" not in status
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")  # the saved key suffices
    assert main(["share"]) == 0
    assert "next: dvc repro --pull --allow-missing" in capsys.readouterr().out
    import s3fs

    keys = {"key": s3.access_key, "secret": s3.secret_key}
    files = s3fs.S3FileSystem(endpoint_url=s3.endpoint, skip_instance_cache=True, **keys)
    assert [path for path in files.find("team") if "referee-share" in path] == []


def test_refusals_of_an_s3_server_are_explained(repository, s3, monkeypatch, refused):
    url = ("s3://team/features", "--endpoint-url", s3.endpoint)
    set_keys(monkeypatch, s3, AWS_SECRET_ACCESS_KEY="wrong")
    line = refused(*url, "--save-keys")
    assert "s3://team/features: cannot be written" in line
    assert "AWS_SECRET_ACCESS_KEY" in line
    set_keys(monkeypatch, s3)
    assert "check the bucket" in refused("s3://nobody", "--endpoint-url", s3.endpoint)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "--save-keys: AWS_ACCESS_KEY_ID" in refused(*url, "--save-keys")


@pytest.mark.parametrize("url", ["s3://team/x --endpoint-url http://127.0.0.1:{}", "ssh://127.0.0.1:{}/x"])
def test_unreachable_server_is_reported(repository, monkeypatch, refused, url):
    (port,) = free_ports(1)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "a")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    line = refused(*url.format(port).split())
    assert "cannot be written" in line
    assert str(port) in line


def test_ssh_user_and_key_file_are_kept_out_of_git(repository, ssh, tmp_path, capsys):
    url = f"ssh://{ssh.user}@127.0.0.1:{ssh.port}{tmp_path}/there"
    assert main(["share", url, "--key-file", str(ssh.keyfile)]) == 0
    shared = f"ssh://127.0.0.1:{ssh.port}{tmp_path}/there"
    assert f"{shared} can be read and written" in capsys.readouterr().out
    tracked, local = read_configuration()
    assert f"url = {shared}" in tracked
    assert f"user = {ssh.user}" in local
    assert f"keyfile = {ssh.keyfile}" in local
    assert "keyfile" not in tracked
    assert list((tmp_path / "there").iterdir()) == []


def test_folder_is_created_only_with_create(repository, tmp_path, capsys, refused):
    folder = tmp_path / "mnt" / "team"
    assert "--create" in refused(str(folder))
    assert not folder.exists()
    assert main(["share", str(folder), "--create"]) == 0
    assert f"team: {folder} can be read and written" in capsys.readouterr().out
    assert list(folder.iterdir()) == []
    assert f"url = {folder}" in read_configuration()[0]
    assert "dvc remote remove team" in refused(str(tmp_path))  # another URL does not replace the team's


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "referee share URL"),
        (["ssh://me:secret@host/x"], "ssh://host: a password in the URL would be in git"),
        (["s3://"], "s3://: names no host or bucket"),
        (["ssh://host:abc/x"], "ssh://host:abc/x: not a URL"),
        (["s3://b/x", "--user", "me"], "'user'"),
        (["abc://b/x"], "check the options and the URL"),
    ],
)
def test_impossible_urls_are_refused(repository, refused, args, message):
    line = refused(*args)
    assert message in line
    assert "secret" not in line


def test_a_repository_is_required(tmp_path, monkeypatch, refused):
    monkeypatch.chdir(tmp_path)
    assert "no DVC repository here" in refused("/mnt/x")


@pytest.mark.parametrize("level", ["--project", "--local"])
def test_a_configured_remote_keeps_its_url_as_written(repository, tmp_path, capsys, level):
    (tmp_path / "shared").mkdir()
    command = ["dvc", "remote", "add", "--quiet", "--default", level, "mine", "../shared"]
    subprocess.run(command, cwd=repository, check=True)
    before = read_configuration()
    assert main(["share"]) == 0
    assert "can be read" in capsys.readouterr().out
    assert read_configuration() == before
