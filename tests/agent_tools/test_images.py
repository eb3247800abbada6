"""Images: judged by bytes, upright, within limits, never broken."""

from __future__ import annotations

import base64
import io
import random
import struct
import subprocess
import sys
import threading
import warnings
import zlib
from typing import Any

import pytest
from PIL import Image, ImageFile

from agent_tools.images import MAX_BYTES, ImageError, is_cut_off, resize_image, sniff_mime
from agent_tools.tool import ToolFailure


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


def opened(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def plain(width: int, height: int, kind: str = "PNG", mode: str = "RGB", **options: Any) -> bytes:
    return encoded(Image.new(mode, (width, height), 0), kind, **options)


def noise(width: int, height: int, seed: int = 1) -> Image.Image:
    return Image.frombytes("RGB", (width, height), random.Random(seed).randbytes(width * height * 3))


def png_chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png_claiming(width: int, height: int, content: bytes = b"x") -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + png_chunk(b"IHDR", header)
        + png_chunk(b"IDAT", zlib.compress(content))
        + png_chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("kind", "mime"),
    [("PNG", "image/png"), ("JPEG", "image/jpeg"), ("GIF", "image/gif"), ("WEBP", "image/webp")],
)
def test_the_type_is_read_from_the_bytes(kind: str, mime: str) -> None:
    data = plain(10, 10, kind)
    assert sniff_mime(data) == mime
    assert sniff_mime(data[:12]) == mime


@pytest.mark.parametrize("data", [b"", b"RIFF", b"<html>", b"%PDF-1.7", b"BM1234567890", b"\x89PNG"])
def test_other_bytes_have_no_image_type(data: bytes) -> None:
    assert sniff_mime(data) is None


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_an_image_within_the_limits_is_returned_byte_for_byte(kind: str) -> None:
    data = plain(100, 60, kind)
    image = resize_image(data, "image/png")
    assert image.data == data
    assert image.mime_type == f"image/{kind.lower()}"
    assert (image.original_width, image.original_height, image.width, image.height) == (100, 60, 100, 60)
    assert not image.was_resized
    assert image.note == ""


@pytest.mark.parametrize(
    ("size", "target"),
    [
        ((3000, 1500), (2000, 1000)),
        ((2500, 3000), (1667, 2000)),
        ((2100, 300), (2000, 286)),
        ((2100, 20), (2000, 19)),
        ((1, 2100), (1, 2000)),
        ((5000, 1), (2000, 1)),
        ((2001, 2001), (2000, 2000)),
    ],
)
def test_a_large_image_gets_the_largest_size_of_its_shape(
    size: tuple[int, int], target: tuple[int, int]
) -> None:
    image = resize_image(plain(*size))
    assert (image.width, image.height) == target
    assert (image.original_width, image.original_height) == size
    assert opened(image.data).size == target
    assert image.was_resized


def test_a_tall_screenshot_keeps_its_shape_and_tells_both_sizes() -> None:
    """I03"""
    image = resize_image(plain(1440, 8570))
    assert (image.width, image.height) == (336, 2000)
    assert "1440x8570" in image.note
    assert "336x2000" in image.note
    assert "4.29" in image.note


def test_the_note_names_the_factor_for_coordinates() -> None:
    image = resize_image(plain(3000, 2000), max_width=1500)
    assert (image.width, image.height) == (1500, 1000)
    assert "2.00" in image.note


def test_limits_of_zero_or_less_mean_the_defaults() -> None:
    image = resize_image(plain(2100, 10), max_width=0, max_height=-1, max_bytes=0, quality=-5)
    assert image.width == 2000


def test_all_limits_can_be_set() -> None:
    image = resize_image(plain(500, 500), max_width=200, max_height=100)
    assert (image.width, image.height) == (100, 100)


# Bytes


def test_the_base64_text_fits_the_limit_of_the_providers() -> None:
    """I02"""
    data = encoded(noise(1500, 1040), compress_level=0)
    assert 4_600_000 < len(data) < 4_718_592
    image = resize_image(data, "image/png")
    assert len(image.data) <= MAX_BYTES == 3_932_160
    assert len(base64.b64encode(image.data)) <= 5_242_880
    assert (image.width, image.height) == (1500, 1040)
    assert opened(image.data).format == "JPEG"


def test_noise_that_is_too_large_as_png_becomes_a_jpeg_of_the_same_size() -> None:
    image = resize_image(encoded(noise(200, 200)), max_bytes=20_000)
    assert (image.mime_type, image.width, image.height) == ("image/jpeg", 200, 200)
    assert len(image.data) <= 20_000
    assert "1.00" in image.note


def test_smaller_sizes_are_tried_when_no_quality_fits() -> None:
    image = resize_image(encoded(noise(200, 200)), max_bytes=5_000)
    assert (image.mime_type, image.width, image.height) == ("image/jpeg", 100, 100)
    assert len(image.data) <= 5_000


def test_a_quarter_is_returned_when_nothing_fits() -> None:
    image = resize_image(encoded(noise(110, 110)), max_bytes=1)
    assert (image.width, image.height) == (28, 28)
    assert opened(image.data).size == (28, 28)


def test_a_thin_image_survives_a_byte_limit_that_nothing_meets() -> None:
    image = resize_image(encoded(noise(1, 300)), max_bytes=1)
    assert (image.width, image.height) == (1, 75)
    opened(image.data)


def test_the_smaller_of_png_and_jpeg_is_taken() -> None:
    assert resize_image(encoded(noise(2100, 50))).mime_type == "image/jpeg"
    assert resize_image(plain(2100, 50)).mime_type == "image/png"


def test_a_low_quality_is_never_raised_by_the_ladder() -> None:
    data = encoded(noise(300, 300))
    low = resize_image(data, max_bytes=60_000, quality=30)
    assert (low.width, low.height) == (300, 300)
    assert len(low.data) < len(resize_image(data, max_bytes=60_000, quality=90).data)


@pytest.mark.parametrize("wanted", ["image/png", "image/jpeg"])
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_the_type_can_be_forced(kind: str, wanted: str) -> None:
    data = plain(50, 40, kind)
    image = resize_image(data, as_type=wanted)
    assert image.mime_type == wanted == sniff_mime(image.data)
    assert image.was_resized == (f"image/{kind.lower()}" != wanted)


# Orientation


def corner_colours(image: Image.Image) -> list[str]:
    """The dominant channel at the four corners, clockwise from the top left."""
    rgb = image.convert("RGB")
    right, bottom = rgb.width - 4, rgb.height - 4
    names = []
    for point in ((3, 3), (right, 3), (right, bottom), (3, bottom)):
        red, green, blue = rgb.getpixel(point)  # type: ignore[misc]
        names.append(
            "w" if min(red, green, blue) > 128 else "rgb"[[red, green, blue].index(max(red, green, blue))]
        )
    return names


def cornered(width: int, height: int) -> Image.Image:
    """Red, green, blue and white quarters, clockwise from the top left."""
    image = Image.new("RGB", (width, height), "red")
    image.paste((0, 255, 0), (width // 2, 0, width, height // 2))
    image.paste((0, 0, 255), (width // 2, height // 2, width, height))
    image.paste("white", (0, height // 2, width // 2, height))
    return image


# What the eye sees, by the EXIF rules, for a picture stored as r g b w clockwise.
UPRIGHT = {1: "rgbw", 2: "grwb", 3: "bwrg", 4: "wbgr", 5: "rwbg", 6: "wrgb", 7: "bgrw", 8: "gbwr"}


@pytest.mark.parametrize("kind", ["JPEG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("limit", [2000, 60])
def test_a_picture_is_stood_upright_before_it_is_measured(kind: str, orientation: int, limit: int) -> None:
    """I01"""
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(cornered(300, 200), kind, exif=exif)
    image = resize_image(data, max_width=limit, max_height=limit)
    upright = opened(image.data)
    size = (300, 200) if orientation < 5 else (200, 300)
    assert (image.original_width, image.original_height) == size
    assert upright.size == (image.width, image.height)
    assert image.width / image.height == pytest.approx(size[0] / size[1], rel=0.02)
    assert "".join(corner_colours(upright)) == UPRIGHT[orientation]
    assert upright.getexif().get(0x0112, 1) == 1
    assert image.was_resized == (orientation != 1 or limit == 60)


@pytest.mark.parametrize("prefix", [b"", b"Exif\0\0"])
def test_a_webp_orientation_counts_with_and_without_the_exif_prefix(prefix: bytes) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(cornered(300, 200), "WEBP", exif=prefix + exif.tobytes().removeprefix(b"Exif\0\0"))
    assert resize_image(data).width == 200


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
def test_a_broken_exif_block_does_not_spoil_the_picture() -> None:
    data = plain(300, 200, "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\x7fgarbage")
    assert resize_image(data).data == data


# Kinds of pixels


def test_a_palette_png_with_transparency_stays_transparent() -> None:
    """I06"""
    image = Image.new("P", (3000, 10), 0)
    image.putpalette([200, 0, 0, 0, 200, 0] + [0] * 762)
    image.paste(1, (1500, 0, 3000, 10))
    out = resize_image(encoded(image, transparency=1))
    assert out.mime_type == "image/png" == sniff_mime(out.data)
    pixels = opened(out.data).convert("RGBA")
    assert pixels.getpixel((10, 3)) == (200, 0, 0, 255)
    assert pixels.getpixel((1900, 3))[3] == 0  # type: ignore[index]


def test_a_cmyk_jpeg_can_be_encoded_again() -> None:
    """I06"""
    out = resize_image(plain(3000, 10, "JPEG", "CMYK"))
    pixels = opened(out.data)
    assert (pixels.mode, pixels.width, out.mime_type) == ("RGB", 2000, sniff_mime(out.data))
    assert min(pixels.getpixel((5, 5))) > 240  # type: ignore[arg-type]  # no ink is white


def test_transparency_laid_on_white_when_only_a_jpeg_is_small_enough() -> None:
    """I06"""
    image = noise(400, 400).convert("RGBA")
    image.paste((0, 0, 0, 0), (0, 0, 100, 100))
    out = resize_image(encoded(image), max_bytes=60_000)
    assert out.mime_type == "image/jpeg"
    assert min(opened(out.data).getpixel((30, 30))) > 200  # type: ignore[arg-type]


def test_an_alpha_channel_that_hides_nothing_is_no_reason_for_a_png() -> None:
    assert resize_image(encoded(noise(2100, 50).convert("RGBA"))).mime_type == "image/jpeg"


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_every_mode_of_a_png_can_be_scaled(mode: str) -> None:
    out = resize_image(plain(3000, 10, "PNG", mode))
    assert opened(out.data).size == (2000, 7)


def test_grey_of_sixteen_bits_keeps_its_brightness() -> None:
    image = Image.new("I;16", (3000, 10), 0x4000)
    pixels = opened(resize_image(encoded(image)).data)
    assert pixels.convert("L").getpixel((5, 5)) == pytest.approx(0x40, abs=1)


def test_an_embedded_colour_profile_and_comment_do_not_disturb() -> None:
    data = plain(3000, 10, "JPEG", icc_profile=b"not a profile", comment=b"hello")
    assert resize_image(data).width == 2000


# Animations


def animation(width: int, height: int, frames: int, kind: str = "GIF") -> bytes:
    pictures = [Image.new("RGB", (width, height), (80 * i % 256, 255 - i, 7)) for i in range(frames)]
    return encoded(pictures[0], kind, save_all=True, append_images=pictures[1:])


@pytest.mark.parametrize("kind", ["GIF", "WEBP"])
def test_an_animation_within_the_limits_stays_animated(kind: str) -> None:
    data = animation(100, 50, 3, kind)
    assert resize_image(data).data == data
    assert getattr(opened(data), "n_frames", 1) == 3


@pytest.mark.parametrize("frames", [1, 3])
def test_a_large_gif_becomes_its_first_frame(frames: int) -> None:
    """I07"""
    image = resize_image(animation(3000, 10, frames))
    assert sniff_mime(image.data) == image.mime_type
    assert getattr(opened(image.data), "n_frames", 1) == 1
    assert opened(image.data).convert("RGB").getpixel((5, 5)) == pytest.approx((0, 255, 7), abs=4)


def test_an_animation_too_long_to_check_becomes_its_first_frame() -> None:
    frame = Image.new("P", (2000, 2000))
    data = encoded(frame, "GIF")
    # The same frame eighteen times: 72 million pixels in a few kilobytes.
    start = data.index(b"\x2c", 13 + 3 * 2 ** ((data[10] & 7) + 1))
    many = data[:start] + data[start:-1] * 18 + b";"
    image = resize_image(many)
    assert image.was_resized
    assert (image.width, image.height) == (2000, 2000)


# Broken and hostile


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.6, 0.97])
@pytest.mark.parametrize("size", [(200, 200), (2100, 60)])
def test_a_truncated_image_is_an_error(kind: str, share: float, size: tuple[int, int]) -> None:
    """R16"""
    data = encoded(noise(*size), kind)
    with pytest.raises(ImageError):
        resize_image(data[: int(len(data) * share)])


def test_a_progressive_jpeg_that_is_cut_is_an_error() -> None:
    data = encoded(noise(200, 200), "JPEG", progressive=True)
    with pytest.raises(ImageError):
        resize_image(data[: len(data) * 6 // 10])


def test_a_gif_whose_later_frames_are_cut_is_an_error() -> None:
    pictures = [noise(60, 60, seed) for seed in range(3)]
    data = encoded(pictures[0], "GIF", save_all=True, append_images=pictures[1:])
    with pytest.raises(ImageError):
        resize_image(data[: len(data) - 900])


def test_an_animation_cut_between_two_frames_becomes_its_first_frame() -> None:
    data = animation(40, 40, 2)
    image = resize_image(data.removesuffix(b";"))
    assert image.was_resized
    assert getattr(opened(image.data), "n_frames", 1) == 1


@pytest.mark.parametrize("missing", [1, 4, 12, 20])
def test_a_png_without_its_end_is_an_error(missing: int) -> None:
    with pytest.raises(ImageError):
        resize_image(encoded(noise(20, 20))[:-missing])


def test_a_png_with_a_flipped_bit_is_an_error() -> None:
    data = bytearray(encoded(noise(50, 50)))
    data[len(data) // 2] ^= 1
    with pytest.raises(ImageError):
        resize_image(bytes(data))


@pytest.mark.parametrize("start", [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8 "])
def test_the_right_signature_before_garbage_is_an_error(start: bytes) -> None:
    """R15"""
    with pytest.raises(ImageError):
        resize_image(start + random.Random(7).randbytes(2048))


@pytest.mark.parametrize("start", [b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBP"])
def test_a_signature_alone_is_an_error(start: bytes) -> None:
    with pytest.raises(ImageError):
        resize_image(start)


@pytest.mark.parametrize("data", [b"", b"RIFF", b"hello", b"<html></html>"])
def test_what_is_no_image_is_an_error(data: bytes) -> None:
    with pytest.raises(ImageError):
        resize_image(data, "image/png")
    assert issubclass(ImageError, ToolFailure)


@pytest.mark.parametrize("size", [(0, 0), (0, 5)])
def test_a_png_of_no_size_is_an_error(size: tuple[int, int]) -> None:
    with pytest.raises(ImageError):
        resize_image(png_claiming(*size))


def test_a_huge_claim_is_refused_from_the_header_in_little_memory() -> None:
    """I10"""
    script = """
import sys, time
sys.path[:0] = eval(sys.argv[1])
from support.memory import peak_bytes
from agent_tools.images import ImageError, resize_image
for line in sys.stdin.read().split():
    began = time.monotonic()
    try:
        resize_image(bytes.fromhex(line))
    except ImageError as error:
        print("refused", error)
    print(time.monotonic() - began < 5, peak_bytes() < 200 << 20)
"""
    size = (60_000).to_bytes(2, "big")
    jpeg = bytearray(plain(8, 8, "JPEG", progressive=True))
    at = jpeg.index(b"\xff\xc2") + 5
    jpeg[at : at + 4] = size + size
    gif = bytearray(plain(8, 8, "GIF"))
    gif[6:10] = b"\x60\xea\x60\xea"
    webp = bytearray(plain(8, 8, "WEBP", lossless=True))
    webp[21:25] = (0x0FFFFFFF).to_bytes(4, "little")
    bombs = [png_claiming(60_000, 60_000), bytes(jpeg), bytes(gif), bytes(webp)]
    done = subprocess.run(
        [sys.executable, "-c", script, repr(sys.path)],
        input="\n".join(bomb.hex() for bomb in bombs),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.count("refused") == len(bombs), done.stdout
    assert done.stdout.count("True True") == len(bombs), done.stdout
    assert "pixels" in done.stdout
    assert done.stderr == ""


def test_a_photo_of_many_megapixels_is_decoded_at_a_fraction_of_its_size() -> None:
    script = """
import sys
sys.path[:0] = eval(sys.argv[1])
from support.memory import peak_bytes
from agent_tools.images import resize_image
image = resize_image(sys.stdin.buffer.read())
print(image.original_width, image.width, peak_bytes() < 200 << 20)
"""
    data = plain(12_000, 9_000, "JPEG", "L")
    done = subprocess.run(
        [sys.executable, "-c", script, repr(sys.path)],
        input=data,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == [b"12000", b"2000", b"True"]


def test_no_setting_of_pillow_is_changed_and_nothing_is_warned() -> None:
    before = (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resize_image(plain(3000, 10))
        with pytest.raises(ImageError):
            resize_image(png_claiming(60_000, 60_000))
    assert before == (Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES)


def test_many_threads_get_the_same_answer() -> None:
    data = encoded(noise(2100, 40), "JPEG")
    answers: list[bytes] = []
    threads = [threading.Thread(target=lambda: answers.append(resize_image(data).data)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert len(set(answers)) == 1


def test_importing_the_module_does_not_load_pillow() -> None:
    code = "import sys, agent_tools.images; print('PIL' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("name", "data", "cut"),
    [
        ("x.png", b"", True),
        ("z.webp", b"RIFF", True),
        ("z.WEBP", b"RIFF\x10\0\0\0WE", True),
        ("a.jpg", b"\xff\xd8", True),
        ("a.png", b"version https://git-lfs.github.com/spec/v1", False),
        ("notes.txt", b"", False),
        ("notes.txt", b"RIFF", False),
        ("x.jpg", b"<html><body>404</body></html>", False),
    ],
)
def test_a_cut_off_image_file_is_known_by_name_and_content(name: str, data: bytes, cut: bool) -> None:
    """R16"""
    assert is_cut_off(data, name) is cut


def _jpeg_with_scans(side: int, count: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (side, side), 100).save(buffer, "JPEG", progressive=True, quality=20)
    data = buffer.getvalue()
    last = data[data.rindex(b"\xff\xc4", 0, data.rindex(b"\xff\xda")) : -2]
    return data[:-2] + last * (count - data.count(b"\xff\xda")) + b"\xff\xd9"


def test_a_jpeg_with_very_many_scans_is_refused() -> None:
    """FT-M12: 270 kB took 8 seconds, deaf to a cancellation."""
    with pytest.raises(ImageError, match="200 scans"):
        resize_image(_jpeg_with_scans(3000, 200), "image/jpeg")

    assert resize_image(_jpeg_with_scans(500, 20), "image/jpeg").width == 500


def test_a_sequential_jpeg_with_repeated_scans_is_refused() -> None:
    """FT-M12: its first scan holds all components, so the decoder stops at the second one."""
    image = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(image, "JPEG")
    data = image.getvalue()
    scan = data[data.index(b"\xff\xda") : -2]
    with pytest.raises(ImageError, match="corrupt"):
        resize_image(data[:-2] + scan * 5000 + data[-2:], "image/jpeg")
