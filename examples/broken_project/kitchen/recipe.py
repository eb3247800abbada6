"""Scales a recipe to another number of people."""

from kitchen.units import kilograms_to_grams


def flour_in_grams(kilograms_for_four: float, people: int) -> float:
    """The flour for so many people, from the amount for four."""
    return kilograms_to_grams(kilograms_for_four) * people / 4
