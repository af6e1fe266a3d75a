"""Features shared through a folder; the same story over S3 and SSH is in `make test-long`.

The recipe is that of docs/how-to/sharing.md. `referee share` with real servers is in tests/cli/test_share.py.
"""

import pytest

from sharing_story import SharedRemote, images_among, share_and_hand_back

pytestmark = pytest.mark.slow


def test_a_teammate_without_images_or_weights_gets_a_result(run_project, tmp_path):
    (tmp_path / "remote").mkdir()
    remote = SharedRemote("A shared folder", {"/mnt/team/referee": str(tmp_path / "remote")})
    owners_page = run_project.results("report.html").read_bytes()
    mate = share_and_hand_back(run_project, tmp_path, remote)
    assert images_among(tmp_path / "remote") == []
    assert "left-right" in mate.run("referee", "summary").stdout
    # each makes a report; the owner's, which has pictures, was never sent
    assert "No pictures" in mate.results("report.html").read_text(encoding="utf-8")
    assert b"data:image/" in owners_page
    sent = [file.read_bytes() for file in (tmp_path / "remote").rglob("*") if file.is_file()]
    assert not [content for content in sent if b"data:image/" in content]
