"""Descriptions and parameters from docstrings in three styles."""

from __future__ import annotations

import pytest

from agent.tools.docstrings import split_docstring

GOOGLE = """Copy a file.

    Keeps its mode: and its owner.

    Args:
        source (str): Where it is.
            It must exist.
        target: Where it goes
            note: this line goes on.
        mode (Optional[Tuple[int, str]], optional): Bits.
        **options: More.

    Returns:
        path: The new path.

    Raises:
        OSError: If it can't.
    """
SPHINX = """Copy a file.

    Keeps its mode: and its owner.

    :param str source: Where it is.
        It must exist.
    :param target: Where it goes
        note: this line goes on.
    :type target: str
    :param mode: Bits.
    :param options: More.
    :returns: The new path.
    :raises OSError: If it can't.
    """
NUMPY = """Copy a file.

    Keeps its mode: and its owner.

    Parameters
    ----------
    source : str
        Where it is.
        It must exist.
    target
        Where it goes
        note: this line goes on.
    mode : tuple of int, optional
        Bits.
    **options
        More.

    Returns
    -------
    path
        The new path.
    """


@pytest.mark.parametrize("docstring", [GOOGLE, SPHINX, NUMPY], ids=["google", "sphinx", "numpy"])
def test_the_description_and_the_parameters_of_each_style(docstring: str) -> None:
    description, parameters = split_docstring(docstring)
    assert description == "Copy a file.\n\nKeeps its mode: and its owner."
    assert parameters == {
        "source": "Where it is. It must exist.",
        "target": "Where it goes note: this line goes on.",
        "mode": "Bits.",
        "options": "More.",
    }


@pytest.mark.parametrize(
    ("docstring", "description", "parameters"),
    [
        (None, "", {}),
        ("", "", {}),
        ("  One line.  ", "One line.", {}),
        ("One line.\n\nMore: of it.", "One line.\n\nMore: of it.", {}),
        ("\nArgs:\n    x: Only that.", "", {"x": "Only that."}),
        (
            "Do.\n\nArgs:\n  x: Two spaces.\n    deeper: goes on\n  y: Next.",
            "Do.",
            {"x": "Two spaces. deeper: goes on", "y": "Next."},
        ),
        (
            "Do.\n\nArguments:\n\n        x: Eight spaces.\n        y: Too.",
            "Do.",
            {"x": "Eight spaces.", "y": "Too."},
        ),
        ("Do.\n\nArgs:\n    x:\n        Below.", "Do.", {"x": "Below."}),
        ("Do.\n\nARGS:\n    x: No section.", "Do.\n\nARGS:\n    x: No section.", {}),
        ("Do.\n\nArgs:\n    no colon here", "Do.\n\nArgs:\n    no colon here", {}),
        ("Do.\n\nReturns:\n    One.", "Do.", {}),
        ("Do.\n\nArgs:\n    x: See http://a.b/c: yes.\n", "Do.", {"x": "See http://a.b/c: yes."}),
        ("Do.\n\nExample:\n    x: not a parameter\n\nArgs:\n    y: One.", "Do.", {"y": "One."}),
        ("Do.\n\nKeyword Args:\n    y: One.", "Do.", {"y": "One."}),
        (
            "Do.\n\nArgs:\n    x: One.\n\n    y: After a blank line.",
            "Do.",
            {"x": "One.", "y": "After a blank line."},
        ),
        ("Réponse.\n\nArgs:\n    größe: Wie groß.", "Réponse.", {"größe": "Wie groß."}),
        ("Do.\n\n:param x: One.\nArgs is a word.", "Do.", {"x": "One. Args is a word."}),
        ("A list::\n\n    x: code\n\nEnd.", "A list::\n\n    x: code\n\nEnd.", {}),
        ("Emit :foo: smileys.\n:smile: too", "Emit :foo: smileys.\n:smile: too", {}),
    ],
)
def test_odd_docstrings(docstring: str | None, description: str, parameters: dict[str, str]) -> None:
    assert split_docstring(docstring) == (description, parameters)
