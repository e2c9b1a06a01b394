"""churn.py DIR SEED STEPS: random changes of a tree, with renamed directories and all else."""
import os, random, shutil, stat, sys

top, steps = sys.argv[1], int(sys.argv[3])
rand = random.Random(int(sys.argv[2]))


def paths(dirs):
    got = []
    for where, subs, files in os.walk(top):
        names = [n for n in subs if not os.path.islink(os.path.join(where, n))]
        got += [os.path.join(where, n) for n in (names if dirs else files)]
    return sorted(got)


def place():
    return os.path.join(rand.choice([top] + paths(True)), rand.choice("abcdefgh"))


def drop(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def step():
    path, kind = place(), rand.randrange(12)
    files, dirs = paths(False), paths(True)
    if kind < 2:
        drop(path)
        os.mkdir(path, rand.choice([0o755, 0o700]))
    elif kind < 5:
        if os.path.isdir(path) and rand.randrange(2):
            return
        drop(path)
        with open(path, "w") as f:
            f.write("x" * rand.randrange(4000))
    elif kind == 5:
        drop(path)
    elif kind == 6:
        drop(path)
        os.symlink("t" * rand.randrange(1, 50), path)
    elif kind == 7 and files:
        drop(path)
        if os.path.lexists(files[0]):
            os.link(rand.choice([f for f in files if os.path.lexists(f)]), path,
                    follow_symlinks=False)
    elif kind in (8, 9) and dirs:
        old = rand.choice(dirs)
        if path != old and not path.startswith(old + "/") and not old.startswith(path + "/"):
            if not os.path.lexists(path):
                os.rename(old, path)
    elif kind == 10 and dirs:
        os.chmod(rand.choice(dirs), rand.choice([0o755, 0o711]))
    elif kind == 11 and files:
        os.rename(rand.choice(files), path) if not os.path.isdir(path) else None


for _ in range(steps):
    step()
