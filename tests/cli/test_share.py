"""`referee share`: servers that are there, refuse or are absent; keys stay out of git; a failure changes nothing."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pipeline.cli import share
from pipeline.cli.main import main
from servers.loopback import free_ports
from servers.openssh import running_ssh
from servers.seaweedfs import running_s3


@pytest.fixture(scope="module")
def s3():
    with tempfile.TemporaryDirectory() as folder, running_s3(Path(folder)) as started:
        yield started


@pytest.fixture(scope="module")
def ssh():
    with tempfile.TemporaryDirectory() as folder, running_ssh(Path(folder)) as started:
        yield started


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """An empty repository of git and DVC, which is the working folder; no keys in the environment."""
    folder = tmp_path / "repository"
    folder.mkdir()
    for command in (["git", "init", "--quiet"], ["dvc", "init", "--quiet"]):
        subprocess.run(command, cwd=folder, check=True)
    monkeypatch.chdir(folder)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return folder


def configured(repository):
    local = repository / ".dvc/config.local"
    return (repository / ".dvc/config").read_text(), local.read_text() if local.exists() else ""


def refused(capsys, *args):
    assert main(["share", *args]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.splitlines()) == 1, said.err
    return said.err


def with_keys(monkeypatch, server, **changed):
    for name, value in {**server.credentials(), **changed}.items():
        monkeypatch.setenv(name, value)


def test_s3(repository, s3, monkeypatch, capsys):
    with_keys(monkeypatch, s3)
    url = ("s3://team/features", "--endpoint-url", s3.endpoint, "--region", "us-east-1")
    assert main(["share", *url, "--save-keys"]) == 0
    told = capsys.readouterr().out
    assert told == (
        "team: s3://team/features can be read and written; "
        "next: dvc push --run-cache && git add dvc.lock .dvc/config && git commit\n"
    )
    tracked, own = configured(repository)
    assert s3.endpoint in tracked
    assert "remote = team" in tracked
    assert s3.secret_key in own
    assert s3.access_key in own
    assert s3.secret_key not in tracked
    assert s3.access_key not in tracked
    assert (repository / ".dvc/config.local").stat().st_mode & 0o777 == 0o600
    seen = subprocess.check_output(["git", "status", "--porcelain", "-uall"], text=True)
    assert "config.local" not in seen
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")  # the saved ones suffice
    assert main(["share"]) == 0
    assert "next: dvc repro --pull --allow-missing" in capsys.readouterr().out


def test_s3_leaves_nothing_behind(repository, s3, monkeypatch):
    import s3fs

    with_keys(monkeypatch, s3)
    assert main(["share", "s3://team/empty", "--endpoint-url", s3.endpoint]) == 0
    there = s3fs.S3FileSystem(endpoint_url=s3.endpoint, skip_instance_cache=True)
    assert [path for path in there.find("team") if "referee-share" in path] == []


def test_s3_that_refuses(repository, s3, monkeypatch, capsys):
    before = configured(repository)
    url = ("s3://team/features", "--endpoint-url", s3.endpoint)
    with_keys(monkeypatch, s3, AWS_SECRET_ACCESS_KEY="wrong")
    assert "s3://team/features: cannot be written (" in refused(capsys, *url, "--save-keys")
    assert "cannot be read (" in refused(capsys, *url, "--read-only")
    with_keys(monkeypatch, s3)
    assert "is the bucket there" in refused(capsys, "s3://nobody", "--endpoint-url", s3.endpoint)
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set" in refused(
        capsys, *url, "--save-keys"
    )
    assert configured(repository) == before


@pytest.mark.parametrize("scheme", ["s3", "ssh"])
def test_where_nobody_listens(repository, monkeypatch, capsys, scheme):
    (port,) = free_ports(1)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    before = configured(repository)
    if scheme == "s3":
        said = refused(capsys, "s3://team/x", "--endpoint-url", f"http://127.0.0.1:{port}")
    else:
        said = refused(capsys, f"ssh://127.0.0.1:{port}/x")
    assert "cannot be written (" in said
    assert str(port) in said
    assert configured(repository) == before


def test_ssh(repository, ssh, tmp_path, capsys):
    url = f"ssh://{ssh.user}@127.0.0.1:{ssh.port}{tmp_path}/there"
    assert main(["share", url, "--key-file", str(ssh.keyfile)]) == 0
    assert f"ssh://127.0.0.1{tmp_path}/there can be read and written" in capsys.readouterr().out
    tracked, own = configured(repository)
    assert f"port = {ssh.port}" in tracked
    assert f"user = {ssh.user}" in own
    assert f"keyfile = {ssh.keyfile}" in own
    assert ssh.user + "@" not in tracked
    assert "keyfile" not in tracked
    assert list((tmp_path / "there").iterdir()) == []


def test_ssh_with_a_key_that_is_not_let_in(repository, ssh, tmp_path, capsys):
    other = tmp_path / "other_key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", other], check=True)
    before = configured(repository)
    said = refused(
        capsys, f"ssh://127.0.0.1:{ssh.port}/x", "--user", ssh.user, "--key-file", str(other)
    )
    assert "Permission denied" in said
    assert "does `ssh HOST` let you in" in said
    assert configured(repository) == before


def test_a_folder(repository, tmp_path, capsys):
    there = tmp_path / "mnt" / "team"
    assert main(["share", str(there)]) == 0
    assert f"team: {there} can be read and written" in capsys.readouterr().out
    assert list(there.iterdir()) == []
    assert f"url = {there}" in configured(repository)[0]
    assert "is " + str(there) + " already" in refused(capsys, str(tmp_path / "other"))
    assert main(["share", str(tmp_path / "other"), "--name", "second"]) == 0
    assert "dvc push --run-cache --remote second" in capsys.readouterr().out
    assert "remote = team" in configured(repository)[0]


def test_a_folder_where_a_file_is(repository, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refused(capsys, str(tmp_path / "file" / "below"))
    assert "is it mounted" in refused(capsys, str(tmp_path / "none"), "--read-only")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([], "no remote 'team' is configured; name its place: referee share URL"),
        (["gs://bucket/x"], "referee share knows s3://, ssh:// and folders"),
        (["ssh://me:secret@host/x"], "no password in a URL"),
        (["ssh://host"], "names no folder"),
        (["s3://"], "names no bucket"),
        (["s3://[x"], "s3://[x: not a URL (Invalid IPv6 URL)"),
        (["ssh://host:abc/x"], "ssh://host:abc/x: not a URL (Port could not be cast"),
        (["ssh://host:99999/x"], "not a URL (Port out of range"),
        (["inside"], "is inside this repository"),
        (["s3://b/x", "--user", "me"], "--user: not an option of S3"),
        (["/mnt/x", "--endpoint-url", "http://h"], "--endpoint-url: not an option of a folder"),
        (["/mnt/x", "--save-keys"], "--save-keys: is for S3"),
    ],
)
def test_what_cannot_be_meant(repository, capsys, args, said):
    before = configured(repository)
    told = refused(capsys, *args)
    assert said in told
    assert "secret" not in told
    assert configured(repository) == before


def test_outside_a_repository(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert "no DVC repository here" in refused(capsys, "/mnt/x")


def test_without_the_extra(repository, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "dvc_s3", None)  # as where it is not installed
    assert "s3://team/x: needs dvc-s3; pip install 'referee-pipeline[s3]'" in refused(
        capsys, "s3://team/x"
    )
    subprocess.run(["dvc", "remote", "add", "--quiet", "-d", "team", "s3://team/x"], check=True)
    assert main(["inspect", "--remote", "cache/source/left.zarr"]) == 2
    assert "needs dvc-s3" in capsys.readouterr().err


def test_help_says_where_keys_go(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["share", "--help"])
    assert ".dvc/config.local, which git ignores" in capsys.readouterr().out
    assert share.__doc__


@pytest.mark.parametrize("level", ["--project", "--local"])
def test_a_remote_that_is_there_keeps_the_place_that_was_written(
    repository, tmp_path, capsys, level
):
    (tmp_path / "shared").mkdir()
    command = ["dvc", "remote", "add", "--quiet", level, "mine", "../shared"]
    subprocess.run(command, cwd=repository, check=True)
    before = configured(repository)
    assert main(["share", "--name", "mine"]) == 0
    assert "can be read and written" in capsys.readouterr().out
    assert configured(repository) == before
