/* Compiles the code after this #include for size: it runs at the start, once per client, or next to a wait. The extension must
 * stay below 8 MiB. */
#if defined(__GNUC__) && !defined(__clang__)
# pragma GCC optimize ("Os")
#endif
