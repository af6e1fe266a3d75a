"""Small trees laid out exactly as each dataset is downloaded."""

import os

import numpy as np
import pytest

from pipeline.datasets.layouts import class_folders, find_images, images_in, npz_paths
from pipeline.errors import InputError

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp"})
VISDA = ("aeroplane", "bicycle", "bus")


def put(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"never opened")


def found(root, folder, **kwargs):
    images = find_images(root / folder, suffixes=SUFFIXES, **kwargs).images
    return [(image.path.relative_to(root).as_posix(), image.class_name) for image in images]


def listed(root, folder, text, *, list_root=None, class_names=VISDA):
    (root / "list.txt").write_bytes(text.encode())
    lists = [(root / "list.txt", root / (list_root or folder))]
    return found(root, folder, lists=lists, class_names=class_names)


def test_any_folder_of_classes_at_any_depth(tmp_path):
    put(tmp_path, "mine/b/2.png", "mine/a/x/y/10.png", "mine/a/1.JPG")
    assert found(tmp_path, "mine") == [
        ("mine/a/1.JPG", "a"),
        ("mine/a/x/y/10.png", "a"),
        ("mine/b/2.png", "b"),
    ]
    assert len(images_in(tmp_path / "mine", SUFFIXES)) == 3


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


def test_officehome_with_its_space_and_its_list_beside_the_classes(tmp_path):
    put(tmp_path, "Real World/Alarm_Clock/00001.jpg", "Real World/imagelist.txt")
    assert found(tmp_path, "Real World") == [("Real World/Alarm_Clock/00001.jpg", "Alarm_Clock")]


def test_visda_by_its_folders_and_by_its_list(tmp_path):
    put(tmp_path, "train/aeroplane/src_1.png", "train/bus/a photo 2.png", "train/image_list.txt")
    expected = [("train/aeroplane/src_1.png", "aeroplane"), ("train/bus/a photo 2.png", "bus")]
    assert found(tmp_path, "train", class_names=VISDA) == expected
    text = "aeroplane/src_1.png 0\r\n\r\nbus/a photo 2.png   2\r\n"
    assert listed(tmp_path, "train", text) == expected


def test_visda_test_set_has_classes_only_in_its_list(tmp_path):
    put(tmp_path, "test/trunc00/a.jpg", "test/b.jpg")
    assert listed(tmp_path, "test", "trunc00/a.jpg 2\nb.jpg 0\n") == [
        ("test/b.jpg", "aeroplane"),
        ("test/trunc00/a.jpg", "bus"),
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
    for class_names in (names, ()):
        assert listed(tmp_path, "clipart", text, list_root=".", class_names=class_names) == expected


def test_train_and_test_lists_together(tmp_path):
    put(tmp_path, "d/bus/1.png", "d/bus/2.png")
    (tmp_path / "train.txt").write_text("bus/1.png 2\n")
    (tmp_path / "test.txt").write_text("bus/2.png 2\nbus/1.png 2\n")
    lists = [(tmp_path / name, tmp_path / "d") for name in ("train.txt", "test.txt")]
    assert len(found(tmp_path, "d", lists=lists, class_names=VISDA)) == 2


def test_files_that_are_no_images_are_left_out_and_counted(tmp_path):
    put(tmp_path, "d/a/1.png", "d/a/.hidden.png", "d/__MACOSX/a/._1.png", "d/.cache/a/1.png")
    put(tmp_path, "d/a/__MACOSX/1.png", "d/preview.png")
    put(tmp_path, "d/a/1.HEIC", "d/a/2.heic", "d/a/notes.txt", "d/a/noending")
    (tmp_path / "d/notes").mkdir()
    assert found(tmp_path, "d", class_names=["a"]) == [("d/a/1.png", "a")]
    ignored = find_images(tmp_path / "d", suffixes=SUFFIXES).ignored
    assert ignored == {".heic": 2, ".txt": 1, "no suffix": 1}


def test_links_are_followed_but_not_in_a_circle(tmp_path):
    put(tmp_path, "other/1.png")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a").symlink_to(tmp_path / "other")
    (tmp_path / "other/loop").symlink_to(tmp_path / "other")
    (tmp_path / "other/broken.png").symlink_to(tmp_path / "nothing")
    assert found(tmp_path, "d") == [("d/a/1.png", "a")]


def test_a_missing_folder_or_a_file_in_its_place(tmp_path):
    (tmp_path / "file").write_text("x")
    for name in ("amazon", "file"):
        with pytest.raises(InputError, match=rf"{name}: .*domains\.\*\.images.*doctor"):
            find_images(tmp_path / name, suffixes=SUFFIXES)


def test_an_unknown_class_folder_names_the_nearest(tmp_path):
    put(tmp_path, "d/backpack/1.png")
    with pytest.raises(InputError, match=r"d/backpack: .*class_names.*did you mean 'back_pack'"):
        found(tmp_path, "d", class_names=["back_pack", "bike"])


@pytest.mark.parametrize(("old", "new"), [("d/a/1.png", b"d/a/\xff.png"), ("d/a", b"d/caf\xe9")])
def test_a_name_that_is_not_text_is_refused(tmp_path, old, new):
    put(tmp_path, "d/a/1.png")
    try:
        os.rename(tmp_path / old, os.fsencode(tmp_path) + b"/" + new)  # noqa: PTH104
    except OSError:
        pytest.skip("this file system has UTF-8 names only")
    with pytest.raises(InputError, match=r"\\udc.*: this name is not UTF-8; rename"):
        found(tmp_path, "d")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bus/1.png 2\nbus/gone.png 2\n", r"line 2: bus/gone.png: .*lists\.\*\.root"),
        ("\nbus/1.png 3\n", "line 2: bus/1.png: label 3 is out of range"),
        ("../d/bus/1.png 2\n", r"line 1: \.\./d/bus/1.png: leaves the folder"),
        ("/etc/passwd 2\n", "line 1: /etc/passwd: leaves the folder"),
        ("bus/1.png\n", "line 1: .*'bus/1.png'"),
        ("bus/1.png two\n", "line 1: "),
        ("bus/notes.txt 2\n", "line 1: bus/notes.txt: not an image"),
        ("\n \n", "the image list is empty"),
        ("trunc0/1.png 0\ntrunc0/1.png 1\n", "listed in two classes, aeroplane and bicycle"),
    ],
)
def test_a_bad_list_names_file_and_line(tmp_path, text, message):
    put(tmp_path, "d/bus/1.png", "d/trunc0/1.png", "d/bus/notes.txt")
    with pytest.raises(InputError, match=message):
        listed(tmp_path, "d", text)


def test_listed_images_may_be_anywhere_below_the_lists_root(tmp_path):
    """A listed domain's `images` is cache/lists/DOMAIN, which holds no images."""
    put(tmp_path, "data/bus/1.png")
    assert listed(tmp_path, "cache/lists/d", "bus/1.png 2\n", list_root="data") == [
        ("data/bus/1.png", "bus")
    ]


def test_a_list_that_names_no_class_is_refused(tmp_path):
    put(tmp_path, "d/1.png")
    with pytest.raises(InputError, match=r"datasets\.\*\.class_names"):
        listed(tmp_path, "d", "1.png 2\n", class_names=())


def save(tmp_path, **arrays):
    np.savez(tmp_path / "x.npz", **arrays)
    return tmp_path / "x.npz"


def test_paths_in_an_npz_stand_in_for_images(tmp_path):
    paths = ["dslr/bike/2.jpg", "amazon/mug/x/1.jpg", "dslr/back_pack/1.jpg"]
    file = save(tmp_path, paths=np.array(paths), original=np.zeros((3, 4)))
    images = npz_paths(file, "dslr").images
    assert [(image.path.as_posix(), image.class_name) for image in images] == [
        ("dslr/back_pack/1.jpg", "back_pack"),
        ("dslr/bike/2.jpg", "bike"),
    ]
    assert len(npz_paths(file, "amazon", class_names=["mug"]).images) == 1
    with pytest.raises(InputError, match=r"x\.npz: has no array 'paths'"):
        npz_paths(save(tmp_path, original=np.zeros(2)), "dslr")


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["dslr/1.jpg"], "'dslr/1.jpg' is not DOMAIN/CLASS/FILE"),
        (["dslr/bike/1.jpg"] * 2, "'dslr/bike/1.jpg' is there twice"),
        (["webcam/bike/1.jpg"], "none begins with dslr/ .*webcam"),
        (["dslr/bikes/1.jpg"], "'bikes' is not a class.*did you mean 'bike'"),
    ],
)
def test_bad_paths_in_an_npz(tmp_path, paths, message):
    with pytest.raises(InputError, match=message):
        npz_paths(save(tmp_path, paths=np.array(paths)), "dslr", class_names=["bike"])
