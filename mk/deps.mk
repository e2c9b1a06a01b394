# deps
