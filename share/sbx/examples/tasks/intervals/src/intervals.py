"""Sets of numbers as sorted lists of spans (first, last)."""


def merge(spans):
    merged = []
    for first, last in spans:
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], last)
        else:
            merged.append((first, last))
    return merged
