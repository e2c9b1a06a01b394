"""The most frequent words of a text."""
import re


def top(text, n):
    count = {}
    for word in re.findall(r"[A-Za-z']+", text):
        count[word] = count.get(word, 0) + 1
    ranked = sorted(count.items(), key=lambda item: -item[1])
    return [word for word, _ in ranked[:n]]
