/* Lock files: flock(2), opened O_RDWR|O_CLOEXEC, never unlinked while anybody may wait for them. */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

enum lock_how { LOCK_SHARED, LOCK_EXCLUSIVE, LOCK_TRY };

/*
 * Opens (and makes, 0600) the lock file and locks it; LOCK_TRY is exclusive and does not wait.
 * Returns the fd that holds the lock until its last copy is closed; -1 with errno EWOULDBLOCK when
 * LOCK_TRY finds it held, otherwise after fail().
 */
int lock_take(int at, const char *path, enum lock_how how);

/* 1 if somebody holds it exclusively, 0 if nobody does, -1 with errno if it cannot be opened. */
int lock_held(int at, const char *path);
#endif
