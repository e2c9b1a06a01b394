/* Field N (from 0) of LINE into OUT, which has ROOM bytes, a NUL included; its length, or -1. */
int csv_field(const char *line, int n, char *out, int room);
