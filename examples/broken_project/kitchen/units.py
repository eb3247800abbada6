"""One unit into another."""

GRAMS_PER_KILOGRAM = 100
MILLILITRES_PER_LITRE = 1000
TEASPOONS_PER_TABLESPOON = 3


def kilograms_to_grams(kilograms: float) -> float:
    """The weight in grams."""
    return kilograms * GRAMS_PER_KILOGRAM


def litres_to_millilitres(litres: float) -> float:
    """The volume in millilitres."""
    return litres * MILLILITRES_PER_LITRE


def tablespoons_to_teaspoons(tablespoons: float) -> float:
    """The volume in teaspoons."""
    return tablespoons * TEASPOONS_PER_TABLESPOON
