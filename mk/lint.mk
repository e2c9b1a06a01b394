# lint
