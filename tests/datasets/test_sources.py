"""Sources of images: small copies of the layouts in which datasets are downloaded; images are never opened."""

import gzip
import os
import sys
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.datasets.sources.choose import find_in
from pipeline.datasets.sources.source import DomainSettings
from pipeline.errors import InputError
from shards import write_parquet, write_tar

VISDA = ("aeroplane", "bicycle", "bus")


def put(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"never opened")


def find(images, **settings):
    return find_in(images, DomainSettings(**settings))


def assert_refused(message, images, **settings):
    with pytest.raises(InputError, match=message) as caught:
        find(images, **settings)
    assert "\n" not in str(caught.value)


def paths_and_classes(root, folder, **settings):
    images = find(root / folder, **settings).images
    return [(image.path.relative_to(root).as_posix(), image.class_name) for image in images]


@pytest.mark.parametrize(
    ("folder", "paths", "others", "class_names"),
    [
        ("mine", {"mine/a/1.JPG": "a", "mine/a/x/y/10.png": "a", "mine/b/2.png": "b"}, (), ()),
        # Office-31
        ("amazon", {"amazon/images/back_pack/1.jpg": "back_pack", "amazon/images/bike/1.jpg": "bike"}, (), ()),
        ("amazon/images", {"amazon/images/back_pack/1.jpg": "back_pack"}, (), ("back_pack", "bike")),
        ("d", {"d/images/1.png": "images"}, (), ("images",)),  # a class called images is a class
        # Office-Home and VisDA have lists beside their class folders
        ("Real World", {"Real World/Alarm_Clock/1.jpg": "Alarm_Clock"}, ("Real World/imagelist.txt",), ()),
        ("train", {"train/aeroplane/1.png": "aeroplane"}, ("train/image_list.txt",), VISDA),
    ],
)
def test_class_folders_at_any_depth(tmp_path, folder, paths, others, class_names):
    put(tmp_path, *paths, *others)
    assert paths_and_classes(tmp_path, folder, class_names=class_names) == list(paths.items())
    if not class_names:
        assert find(tmp_path / folder).classes == tuple(sorted(set(paths.values())))
    assert len(find(tmp_path / folder, labelled=False).images) == len(paths)


DOMAINNET = {"clipart/The_Mona_Lisa/clipart_1.jpg": "The_Mona_Lisa", "clipart/t-shirt/clipart_2.jpg": "t-shirt"}
DOMAINNET_TEXT = "clipart/t-shirt/clipart_2.jpg 1\nclipart/The_Mona_Lisa/clipart_1.jpg 0\n"


@pytest.mark.parametrize(
    ("folder", "text", "class_names", "images"),
    [
        (
            "train",
            "aeroplane/src_1.png 0\r\n\r\nbus/a photo 2.png   2\r\naeroplane/src_1.png 0",
            VISDA,
            {"train/aeroplane/src_1.png": "aeroplane", "train/bus/a photo 2.png": "bus"},
        ),
        # the classes of VisDA's test set are only in its list
        ("test", "trunc00/a.jpg 2\nb.jpg 0\n", VISDA, {"test/b.jpg": "aeroplane", "test/trunc00/a.jpg": "bus"}),
        # DomainNet's lists name the domain and number classes in another order: label 0 is not the first name
        (".", DOMAINNET_TEXT, ["t-shirt", "The_Mona_Lisa"], DOMAINNET),
        (".", DOMAINNET_TEXT, (), DOMAINNET),
    ],
)
def test_a_list_names_the_images_and_without_class_folders_their_classes(tmp_path, folder, text, class_names, images):
    put(tmp_path, *images, f"{folder}/not_listed.jpg")
    (tmp_path / folder / "list.txt").write_bytes(text.encode())
    assert paths_and_classes(tmp_path, f"{folder}/list.txt", class_names=class_names) == list(images.items())


def test_files_that_are_not_images_are_ignored_and_counted(tmp_path):
    put(tmp_path, "d/a/1.png", "d/a/.hidden.png", "d/__MACOSX/a/._1.png", "d/.cache/a/1.png")
    put(tmp_path, "d/a/__MACOSX/1.png", "d/preview.png")
    put(tmp_path, "d/a/1.SVG", "d/a/2.svg", "d/a/notes.txt", "d/a/noending")
    (tmp_path / "d/notes").mkdir()
    assert paths_and_classes(tmp_path, "d", class_names=["a"]) == [("d/a/1.png", "a")]
    assert find(tmp_path / "d").ignored == {".svg": 2, ".txt": 1, "no suffix": 1}


def test_links_are_followed_without_cycles(tmp_path):
    put(tmp_path, "other/1.png")
    (tmp_path / "d").mkdir()
    (tmp_path / "d/a").symlink_to(tmp_path / "other")
    (tmp_path / "other/loop").symlink_to(tmp_path / "other")
    (tmp_path / "other/broken.png").symlink_to(tmp_path / "nothing")
    assert paths_and_classes(tmp_path, "d") == [("d/a/1.png", "a")]


def test_a_missing_folder_a_wrong_file_or_an_unknown_class_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    for name in ("amazon", "file"):
        assert_refused(rf"{name}: .*domains\.\*\.images", tmp_path / name)
    put(tmp_path, "d/backpack/1.png")
    names = ("back_pack", "bike")
    assert_refused(r"d/backpack: .*class_names.*did you mean 'back_pack'", tmp_path / "d", class_names=names)


@pytest.mark.parametrize(("old", "new"), [("d/a/1.png", b"d/a/\xff.png"), ("d/a", b"d/caf\xe9")])
def test_a_name_that_is_not_utf8_is_refused(tmp_path, old, new):
    put(tmp_path, "d/a/1.png")
    try:
        os.rename(tmp_path / old, os.fsencode(tmp_path) + b"/" + new)  # noqa: PTH104
    except OSError:
        pytest.skip("this file system only allows UTF-8 names")
    assert_refused(r"\\udc.*: this name is not UTF-8; rename", tmp_path / "d")


def test_a_class_that_is_not_utf8_is_refused(tmp_path):
    shard = write_tar(tmp_path / "x.tar", {"1.jpg": b"x", "1.json": b'{"label": "\\ud800"}'})
    assert_refused(r"x\.tar/1\.jpg: \\ud800: this name is not UTF-8; rename", shard)


NO_CLASS = "1.png 2\n"  # neither a class folder nor class names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bus/1.png 2\nbus/gone.png 2\n", r"line 2: bus/gone.png: no such file in .*/d"),
        ("\nbus/1.png 3\n", "line 2: bus/1.png: label 3 is out of range"),
        ("../d/bus/1.png 2\n", r"line 1: \.\./d/bus/1.png: leaves the folder"),
        ("/etc/passwd 2\n", "line 1: /etc/passwd: leaves the folder"),
        ("bus/1.png\n", "line 1: .*'bus/1.png'"),
        ("bus/1.png two\n", "line 1: "),
        ("bus/notes.txt 2\n", "line 1: bus/notes.txt: not an image"),
        ("\n \n", "the image list is empty"),
        ("trunc0/1.png 0\ntrunc0/1.png 1\n", "listed in two classes, aeroplane and bicycle"),
        (NO_CLASS, r"datasets\.\*\.class_names"),
    ],
)
def test_a_bad_list_names_file_and_line(tmp_path, text, message):
    put(tmp_path, "d/bus/1.png", "d/trunc0/1.png", "d/bus/notes.txt", "d/1.png")
    (tmp_path / "d/list.txt").write_text(text)
    names = () if text == NO_CLASS else VISDA
    assert_refused(rf"list\.txt.*{message}", tmp_path / "d/list.txt", class_names=names)


def save(tmp_path, **arrays):
    np.savez(tmp_path / "x.npz", **arrays)
    return tmp_path / "x.npz"


def test_paths_in_an_npz_replace_images(tmp_path):
    paths = ["dslr/bike/2.jpg", "amazon/mug/x/1.jpg", "dslr/back_pack/1.jpg"]
    file = save(tmp_path, paths=np.array(paths), original=np.zeros((3, 4)))
    images = find(file, domain="dslr").images
    assert [(image.path.as_posix(), image.class_name) for image in images] == [
        ("dslr/back_pack/1.jpg", "back_pack"),
        ("dslr/bike/2.jpg", "bike"),
    ]
    assert len(find(file, domain="amazon", class_names=("mug",)).images) == 1
    assert_refused(r"x\.npz: has no array 'paths'", save(tmp_path, original=np.zeros(2)), domain="dslr")


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["dslr/1.jpg"], "'dslr/1.jpg' is not DOMAIN/CLASS/FILE"),
        (["dslr/bike/1.jpg"] * 2, "'dslr/bike/1.jpg' is listed twice"),
        (["webcam/bike/1.jpg"], "none begins with dslr/ .*webcam"),
        (["dslr/bikes/1.jpg"], "'bikes' is not a class.*did you mean 'bike'"),
    ],
)
def test_bad_paths_in_an_npz_are_one_line(tmp_path, paths, message):
    assert_refused(message, save(tmp_path, paths=np.array(paths)), domain="dslr", class_names=("bike",))


def test_webdataset_samples_take_labels_from_cls_and_json(tmp_path):
    write_tar(
        tmp_path / "shards/1.tar",
        {
            "0002.png": b"x",
            "0002.json": b'{"label": "Bus", "caption": "a bus"}',
            "0002.txt": b"a bus",
            "./0001.jpg": b"x",
            "./0001.cls": b"1\n",
            "./0001.seg.png": b"a mask",
        },
    )
    write_tar(tmp_path / "shards/0.tar", {"a.jpg": b"x", "a.cls": b"bicycle"})
    assert paths_and_classes(tmp_path, "shards", class_names=VISDA) == [
        ("shards/0.tar/a.jpg", "bicycle"),
        ("shards/1.tar/0001.jpg", "bicycle"),
        ("shards/1.tar/0002.png", "bus"),
    ]
    assert find(tmp_path / "shards", class_names=VISDA).ignored == {".png": 1, ".txt": 1}


def test_class_folders_in_a_tar_file_are_classes(tmp_path):
    names = ["d/bus/1.jpg", "d/bus/holiday.1.jpg", "d/bus/holiday.2.jpg", "d/.cache/1.jpg"]
    write_tar(tmp_path / "d.tar", dict.fromkeys(names, b"x"))
    expected = [(f"d.tar/{name}", "bus") for name in names[:3]]
    assert paths_and_classes(tmp_path, "d.tar") == expected
    assert paths_and_classes(tmp_path, "d.tar", class_names=VISDA) == expected


def test_parquet_files_from_the_hub_supply_missing_class_names(tmp_path):
    names = {"label": ("bus", "aeroplane"), "domain": ("Art", "Real World")}
    write_parquet(tmp_path / "hub/a.parquet", [b"x"] * 3, label=[1, 0, 0], domain=[0, 1, 0], names=names)
    art = find(tmp_path / "hub", domain="home_art", dataset="home")
    assert [image.class_name for image in art.images] == ["aeroplane", "bus"]
    assert art.classes == ("bus", "aeroplane")


def test_tables_of_paths_have_labels_domains_and_tasks(tmp_path):
    put(tmp_path, "data/x/1.png", "data/2.png", "data/3.png")
    rows = {"file": ["x/1.png", "2.png", "3.png"], "what": ["Bus", "2", "bicycle"]}
    rows |= {"style": ["art", "art", "real"], "task": [2, 2, 1]}
    pq.write_table(pa.table(rows), tmp_path / "data/t.parquet")
    text = "\n".join(",".join(map(str, row)) for row in zip(*rows.values(), strict=True))
    (tmp_path / "data/t.csv").write_text(f"{','.join(rows)}\n{text}\n")
    columns = {"image": "file", "label": "what", "domain": "style"}
    for name in ("t.csv", "t.parquet"):
        settings = {"class_names": VISDA, "columns": columns}
        assert paths_and_classes(tmp_path, f"data/{name}", domain="art", **settings) == [
            ("data/2.png", "bus"),
            ("data/x/1.png", "bus"),
        ]
        all_domains = settings | {"columns": columns | {"domain": ""}}
        assert find(tmp_path / "data" / name, **all_domains).tasks() == [["bicycle"], ["bus"]]
    # the format of image datasets on the hub, with its column name
    (tmp_path / "data/metadata.csv").write_text("file_name,label\nx/1.png,bus\n")
    assert paths_and_classes(tmp_path, "data/metadata.csv", class_names=VISDA) == [("data/x/1.png", "bus")]


@pytest.mark.parametrize("form", ["tar", "parquet", "csv"])
def test_an_unlabelled_domain_needs_no_labels(tmp_path, form):
    put(tmp_path, "d/1.png")
    write_tar(tmp_path / "d.tar", {"1.png": b"x"})
    write_parquet(tmp_path / "d.parquet", [b"x"])
    (tmp_path / "d.csv").write_text("path\nd/1.png\n")
    assert len(find(tmp_path / f"d.{form}", labelled=False).images) == 1
    assert_refused(r"d\.\w+.*(no class|has no column 'label')", tmp_path / f"d.{form}")


CUT = tarfile.BLOCKSIZE * 2 + 100  # inside the second header


@pytest.mark.parametrize(
    ("members", "spoil", "message"),
    [
        ({"a.jpg": b"x", "b.jpg": b"y"}, lambda data: data[:CUT], r"x\.tar: truncated"),
        ({"a.jpg": b"x" * 999}, lambda data: data[:900], r"x\.tar: truncated"),
        ({"a.jpg": b"x"}, lambda data: data[:1024], r"x\.tar: truncated"),  # at the end of a member
        ({"a.jpg": b"x", "b.jpg": b""}, lambda d: d[:1024] + b"!" + d[1025:], r"x\.tar: truncated"),
        ({"a.jpg": b"x"}, gzip.compress, r"x\.tar: is compressed \(gzip\)"),
        ({}, lambda _: b"no tar at all" * 99, r"x\.tar: truncated, or not a tar"),
        ({"a.jpg": b"x", "a.cls": b"boat"}, bytes, "'boat' is not a class"),
        ({"a.jpg": b"x", "a.json": b"{"}, bytes, r"x\.tar/a\.json: is not JSON"),
        ({"a.jpg": b"x", "a.png": b"", "a.cls": b"1"}, bytes, "'a' has two images, a.jpg and a.png"),
        ({"a/1.jpg": b"x", "./a/1.jpg": b"y"}, bytes, r"x\.tar: has 'a/1\.jpg' twice"),
        ({"a.jpg": b"x"}, bytes, r"x\.tar/a\.jpg: has no class"),
    ],
)
def test_a_bad_tar_is_one_line(tmp_path, members, spoil, message):
    file = write_tar(tmp_path / "x.tar", members)
    file.write_bytes(spoil(file.read_bytes()))
    assert_refused(message, file, class_names=VISDA)


@pytest.mark.parametrize(
    ("columns", "settings", "message"),
    [
        ({"label": [-1]}, {}, r"row 0: label -1 is out of range"),
        ({"label": [None]}, {}, r"row 0: has no label"),
        ({"label": [0]}, {"class_names": ()}, r"row 0: label 0 has no name.*class_names"),
        ({"labels": [0]}, {}, r"no column 'label'; did you mean 'labels'.*columns\.label"),
        ({"label": [0], "n": [1]}, {"columns": {"image": "n"}}, r"'n' has neither .*: image\)"),
        ({"label": [0], "domain": ["art"]}, {"domain": "clipart"}, r"none .*clipart \(there are: art"),
        ({"label": [0], "task": [0]}, {}, r"row 0: task '0' is not a whole number from 1"),
    ],
)
def test_a_bad_parquet_is_one_line(tmp_path, columns, settings, message):
    file = write_parquet(tmp_path / "x.parquet", [b"x"], **columns)
    assert_refused(rf"x\.parquet.*{message}", file, **({"class_names": VISDA} | settings))


def test_a_parquet_without_images_or_truncated_is_one_line(tmp_path):
    pq.write_table(pa.table({"label": [1]}), tmp_path / "x.parquet")
    assert_refused(r"x\.parquet: has no column 'image'.*columns\.image", tmp_path / "x.parquet")
    write_parquet(tmp_path / "x.parquet", [b"x"], label=[0]).write_bytes(b"PAR1 cut")
    assert_refused(r"x\.parquet: truncated, or not a Parquet file", tmp_path / "x.parquet")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,class\n1.png,bus\n", r"no column 'label'.*columns\.label"),
        ("path,label\n2.png,bus\n", r"row 0: 2\.png: no such file"),
        ('path,label\n"1\n.png",bus\n', r"row 0: 1 \.png: no such file"),
        ("path,label\n1.png,bus,x\n", "row 0 has 3 values for 2 columns"),
        ('path,label\n"1.png,bus\n', "not a CSV file"),
        ("path;label\n1.png;bus\n", r"x\.csv: .*semicolons; .*commas"),
        ("path\tlabel\n1.png\tbus\n", r"x\.csv: .*tabs; .*commas"),
        ("", r"x\.csv: has no column"),
    ],
)
def test_a_bad_csv_is_one_line(tmp_path, text, message):
    put(tmp_path, "1.png")
    (tmp_path / "x.csv").write_text(text)
    assert_refused(message, tmp_path / "x.csv", class_names=VISDA)


def test_shards_of_two_kinds_or_a_missing_pyarrow_are_refused(tmp_path, monkeypatch):
    write_tar(tmp_path / "d/x.tar", {"a/1.jpg": b"x"})
    write_parquet(tmp_path / "d/x.parquet", [b"x"], label=["bus"])
    assert_refused(r"both \.parquet and \.tar", tmp_path / "d")
    for module in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, module, None)
    assert_refused(r"pip install .*\[parquet\]", tmp_path / "d/x.parquet")
