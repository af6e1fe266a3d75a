"""The installed hook; `ensure_torchvision_ops` itself is covered by all tests in this folder, which import timm."""

import subprocess
import sys

from pipeline.encoders import torchvision_ops


def run(code, folder):
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=folder)
    assert process.returncode == 0, process.stderr
    return process.stdout.split()


def test_the_installed_hook_makes_a_plain_import_of_timm_work(tmp_path):
    torchvision_ops.install(tmp_path)
    code = (
        "import site, sys\n"
        f"site.addsitedir({str(tmp_path)!r})\n"
        "print('torch' in sys.modules, 'pipeline' in sys.modules)\n"  # not imported when Python starts
        "import timm, open_clip, torchvision\n"
        "print(any('_Hook' in type(finder).__name__ for finder in sys.meta_path))"
    )
    assert run(code, tmp_path) == ["False", "False", "False"]


def test_the_hook_leaves_other_installations_alone(tmp_path):
    """A torchvision that declares its operators itself, and no torch."""
    torchvision_ops.install(tmp_path)
    for name, content in (("torchvision", "loaded = True"), ("torch", "raise ImportError('no torch here')")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(content)
    code = f"import site\nsite.addsitedir({str(tmp_path)!r})\nimport torchvision\nprint(torchvision.loaded)"
    assert run(code, tmp_path) == ["True"]
