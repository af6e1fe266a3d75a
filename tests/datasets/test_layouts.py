"""Small trees laid out exactly as each dataset is downloaded."""

import os

import numpy as np
import pytest
from PIL import Image

from pipeline.datasets.layouts import class_folders, find_images, npz_paths
from pipeline.errors import InputError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp"})
VISDA = ("aeroplane", "bicycle", "bus")


def put(root, *paths):
    for i, path in enumerate(paths):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (3, 2), (i, 0, 0)).save(root / path)


def found(root, folder, **kwargs):
    images = find_images(root / folder, suffixes=SUFFIXES, **kwargs)
    return [(image.path.relative_to(root).as_posix(), image.class_name) for image in images]


def listed(root, folder, text, *, list_root=None, class_names=VISDA):
    (root / "list.txt").write_bytes(text.encode())
    lists = [(root / "list.txt", root / (list_root or folder))]
    return found(root, folder, lists=lists, class_names=class_names)


def test_any_folder_of_classes(tmp_path):
    put(tmp_path, "mine/b/2.png", "mine/a/10.png", "mine/a/1.JPG")
    assert found(tmp_path, "mine") == [
        ("mine/a/1.JPG", "a"),
        ("mine/a/10.png", "a"),
        ("mine/b/2.png", "b"),
    ]


def test_office31(tmp_path):
    put(tmp_path, "amazon/images/back_pack/frame_0001.jpg", "amazon/images/bike/frame_0001.jpg")
    expected = [
        ("amazon/images/back_pack/frame_0001.jpg", "back_pack"),
        ("amazon/images/bike/frame_0001.jpg", "bike"),
    ]
    assert found(tmp_path, "amazon") == expected
    assert found(tmp_path, "amazon/images", class_names=["back_pack", "bike"]) == expected
    assert class_folders(tmp_path / "amazon") == ["back_pack", "bike"]


def test_a_class_called_images_is_a_class(tmp_path):
    put(tmp_path, "d/images/1.png")
    assert found(tmp_path, "d", class_names=["images"]) == [("d/images/1.png", "images")]


def test_officehome_with_its_space_and_its_lists_beside(tmp_path):
    put(tmp_path, "Real World/Alarm_Clock/00001.jpg")
    (tmp_path / "Real World/imagelist.txt").write_text("x")
    assert found(tmp_path, "Real World") == [("Real World/Alarm_Clock/00001.jpg", "Alarm_Clock")]


def test_visda_folders_with_the_list_inside(tmp_path):
    put(tmp_path, "train/aeroplane/src_1.png", "train/bus/src_2.png")
    (tmp_path / "train/image_list.txt").write_text("aeroplane/src_1.png 0\n")
    assert len(found(tmp_path, "train", class_names=VISDA)) == 2
    text = "aeroplane/src_1.png 0\r\n\r\nbus/src_2.png 2\r\n"
    assert listed(tmp_path, "train", text) == [
        ("train/aeroplane/src_1.png", "aeroplane"),
        ("train/bus/src_2.png", "bus"),
    ]


def test_visda_test_set_has_classes_only_in_its_list(tmp_path):
    put(tmp_path, "test/trunc00/a.jpg", "test/trunc01/b.jpg")
    assert listed(tmp_path, "test", "trunc00/a.jpg 2\ntrunc01/b.jpg 0\n") == [
        ("test/trunc00/a.jpg", "bus"),
        ("test/trunc01/b.jpg", "aeroplane"),
    ]


def test_domainnet_lists_name_the_domain_and_number_classes_their_own_way(tmp_path):
    put(tmp_path, "clipart/The_Mona_Lisa/clipart_1.jpg", "clipart/t-shirt/clipart_2.jpg")
    put(tmp_path, "clipart/t-shirt/not_listed.jpg")
    text = "clipart/t-shirt/clipart_2.jpg 1\nclipart/The_Mona_Lisa/clipart_1.jpg 0\n"
    names = ["t-shirt", "The_Mona_Lisa"]  # label 0 is not the first name
    expected = [
        ("clipart/The_Mona_Lisa/clipart_1.jpg", "The_Mona_Lisa"),
        ("clipart/t-shirt/clipart_2.jpg", "t-shirt"),
    ]
    assert listed(tmp_path, "clipart", text, list_root=".", class_names=names) == expected
    assert listed(tmp_path, "clipart", text, list_root=".", class_names=()) == expected


def test_train_and_test_lists_together(tmp_path):
    put(tmp_path, "d/bus/1.png", "d/bus/2.png")
    (tmp_path / "train.txt").write_text("bus/1.png 2\n")
    (tmp_path / "test.txt").write_text("bus/2.png 2\nbus/1.png 2\n")
    lists = [(tmp_path / name, tmp_path / "d") for name in ("train.txt", "test.txt")]
    assert len(found(tmp_path, "d", lists=lists, class_names=VISDA)) == 2


def test_paths_in_lists_may_hold_spaces(tmp_path):
    put(tmp_path, "d/bus/a photo 1.png")
    assert listed(tmp_path, "d", "bus/a photo 1.png   2\n") == [("d/bus/a photo 1.png", "bus")]


def test_what_is_ignored(tmp_path):
    put(tmp_path, "d/a/1.png", "d/a/.hidden.png", "d/__MACOSX/a/._1.png", "d/.cache/a/1.png")
    put(tmp_path, "d/a/__MACOSX/1.png", "d/preview.png")
    for name in ("Thumbs.db", "desktop.ini", "notes.txt", "noending"):
        (tmp_path / "d/a" / name).write_text("x")
    (tmp_path / "d/notes").mkdir()
    assert found(tmp_path, "d", class_names=["a"]) == [("d/a/1.png", "a")]


def test_nested_folders_belong_to_the_class_on_top(tmp_path):
    put(tmp_path, "d/a/x/y/1.png", "d/a/2.png")
    assert found(tmp_path, "d") == [("d/a/2.png", "a"), ("d/a/x/y/1.png", "a")]


def test_links_are_followed_but_not_in_a_circle(tmp_path):
    put(tmp_path, "elsewhere/1.png")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/loop").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/broken.png").symlink_to(tmp_path / "nothing")
    assert found(tmp_path, "d") == [("d/a/1.png", "a")]


def test_class_folders_without_images_are_known(tmp_path):
    put(tmp_path, "d/a/1.png")
    (tmp_path / "d/b").mkdir()
    assert class_folders(tmp_path / "d") == ["a", "b"]
    assert class_folders(tmp_path / "nothing") == []


def test_a_missing_folder_says_what_to_do(tmp_path):
    with pytest.raises(
        InputError, match=r"amazon: no such folder; download .*domains\.\*\.images.*doctor"
    ):
        find_images(tmp_path / "amazon", suffixes=SUFFIXES)


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "amazon").write_text("x")
    with pytest.raises(InputError, match="amazon: is not a folder"):
        find_images(tmp_path / "amazon", suffixes=SUFFIXES)


def test_an_unknown_class_folder_names_the_nearest(tmp_path):
    put(tmp_path, "d/backpack/1.png")
    with pytest.raises(InputError, match=r"d/backpack: .*not a class.*did you mean 'back_pack'"):
        found(tmp_path, "d", class_names=["back_pack", "bike"])


def test_a_file_name_that_is_not_text_is_refused(tmp_path):
    put(tmp_path, "d/a/1.png")
    try:
        os.rename(tmp_path / "d/a/1.png", os.fsencode(tmp_path / "d/a") + b"/\xff.png")  # noqa: PTH104
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    with pytest.raises(InputError, match=r"d/a/\\udcff.png: this name is not UTF-8; rename"):
        found(tmp_path, "d")


def test_a_class_folder_whose_name_is_not_text_is_refused(tmp_path):
    put(tmp_path, "d/a/1.png")
    put(tmp_path, "d/b/1.png")
    try:
        os.rename(tmp_path / "d/b", os.fsencode(tmp_path / "d") + b"/caf\xe9")  # noqa: PTH104
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    with pytest.raises(InputError, match=r"d/caf\\udce9/1.png: this name is not UTF-8; rename"):
        found(tmp_path, "d")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "bus/1.png 2\nbus/gone.png 2\n",
            r"list.txt: line 2: bus/gone.png: no such file in .*lists\.\*\.root",
        ),
        ("\nbus/1.png 3\n", r"line 2: bus/1.png: label 3 is out of range; .* 3 classes, 0 to 2"),
        ("../d/bus/1.png 2\n", r"line 1: \.\./d/bus/1.png: leaves the folder"),
        ("/etc/passwd 2\n", "line 1: /etc/passwd: leaves the folder"),
        ("bus/1.png\n", r"line 1: must read 'path label' .*'bus/1.png'"),
        ("bus/1.png -1\n", "line 1: must read 'path label'"),
        ("bus/1.png two\n", "line 1: must read 'path label'"),
        ("2\n", "line 1: must read 'path label'"),
        ("bus/notes.txt 2\n", r"line 1: bus/notes.txt: not an image"),
        ("\n \n", "list.txt: the image list is empty"),
        ("trunc0/1.png 0\ntrunc0/1.png 1\n", "listed in two classes, aeroplane and bicycle"),
    ],
)
def test_a_bad_list_names_file_and_line(tmp_path, text, message):
    put(tmp_path, "d/bus/1.png", "d/trunc0/1.png")
    (tmp_path / "d/bus/notes.txt").write_text("x")
    with pytest.raises(InputError, match=message):
        listed(tmp_path, "d", text)


def test_a_list_of_another_domain(tmp_path):
    put(tmp_path, "sketch/bus/1.png", "clipart/bus/1.png")
    with pytest.raises(InputError, match=r"line 1: clipart/bus/1.png: is not in .*sketch"):
        listed(tmp_path, "sketch", "clipart/bus/1.png 2\n", list_root=".")


def test_a_list_without_class_folders_needs_class_names(tmp_path):
    put(tmp_path, "d/1.png")
    assert listed(tmp_path, "d", "1.png 2\n") == [("d/1.png", "bus")]
    with pytest.raises(InputError, match="has no class folder; name the classes"):
        listed(tmp_path, "d", "1.png 2\n", class_names=())


def test_a_missing_or_binary_list(tmp_path):
    put(tmp_path, "d/bus/1.png")
    with pytest.raises(InputError, match=r"gone.txt: no such image list; .*lists\.\*\.file"):
        found(tmp_path, "d", lists=[(tmp_path / "gone.txt", tmp_path / "d")])
    (tmp_path / "list.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not a text file"):
        found(tmp_path, "d", lists=[(tmp_path / "list.txt", tmp_path / "d")])


PATHS = ["dslr/bike/2.jpg", "amazon/mug/x/1.jpg", "dslr/back_pack/1.jpg"]


def save(tmp_path, **arrays):
    np.savez(tmp_path / "x.npz", **arrays)
    return tmp_path / "x.npz"


def test_npz_paths_stand_in_for_images(tmp_path):
    file = save(tmp_path, paths=np.array(PATHS), original=np.zeros((3, 4)))
    images = npz_paths(file, "dslr")
    assert [(image.path.as_posix(), image.class_name) for image in images] == [
        ("dslr/back_pack/1.jpg", "back_pack"),
        ("dslr/bike/2.jpg", "bike"),
    ]
    assert len(npz_paths(file, "amazon", class_names=["mug"])) == 1


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["dslr/1.jpg"], r"'dslr/1.jpg' is not DOMAIN/CLASS/FILE"),
        (["dslr\\bike\\1.jpg"], "is not DOMAIN/CLASS/FILE"),
        (["/dslr/bike/1.jpg"], "is not DOMAIN/CLASS/FILE"),
        (["dslr/../bike/1.jpg"], "is not DOMAIN/CLASS/FILE"),
        (["dslr//bike/1.jpg"], "is not DOMAIN/CLASS/FILE"),
        ([""], "is not DOMAIN/CLASS/FILE"),
        (["dslr/bike/1.jpg"] * 2, r"'dslr/bike/1.jpg' is there twice"),
        (["webcam/bike/1.jpg"], r"none begins with dslr/ \(there are: webcam\)"),
        (["dslr/bikes/1.jpg"], r"'bikes' is not a class.*did you mean 'bike'"),
        ([1, 2], "must be a list of strings, not int64"),
        ([["dslr/bike/1.jpg"]], "must be a list of strings"),
    ],
)
def test_bad_npz_paths(tmp_path, paths, message):
    with pytest.raises(InputError, match=message):
        npz_paths(save(tmp_path, paths=np.array(paths)), "dslr", class_names=["bike"])


def test_object_arrays_are_refused_by_name(tmp_path):
    file = save(tmp_path, paths=np.array(PATHS, dtype=object))
    with pytest.raises(InputError, match="paths holds Python objects"):
        npz_paths(file, "dslr")


def test_npz_that_is_none(tmp_path):
    with pytest.raises(InputError, match=r"gone.npz: no such file"):
        npz_paths(tmp_path / "gone.npz", "dslr")
    (tmp_path / "bad.npz").write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(InputError, match=r"bad.npz: not a readable"):
        npz_paths(tmp_path / "bad.npz", "dslr")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(InputError, match=r"text.npz: not a .npy or .npz file"):
        npz_paths(tmp_path / "text.npz", "dslr")
    whole = save(tmp_path, paths=np.array(PATHS)).read_bytes()
    (tmp_path / "cut.npz").write_bytes(b"x" * 40 + whole[40:])
    with pytest.raises(InputError, match=r"cut.npz: not a .npy or .npz file"):
        npz_paths(tmp_path / "cut.npz", "dslr")
    with pytest.raises(InputError, match=r"has no array 'paths'"):
        npz_paths(save(tmp_path, original=np.zeros(2)), "dslr")
