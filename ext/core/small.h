/* What follows this line in a file is compiled for size: it runs at a start, once a client, or beside a wait. The extension
 * has a bound of 8 MiB. */
#if defined(__GNUC__) && !defined(__clang__)
# pragma GCC optimize ("Os")
#endif
