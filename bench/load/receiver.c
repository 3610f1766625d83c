/* Counts occurrences of a text in one stream of server-sent events.
 *
 *     receiver PORT PATH NEEDLE COUNT_FILE
 *
 * The counters are 64-bit words in COUNT_FILE, shared by mmap. The benchmark reads them at any time without a system call in this
 * process, so this process uses processor time only for its reads. Word 0 is the number of needles. Word 1 becomes 1 after the
 * response head has arrived. Word 2 is the number of reads. When the server closes, the process exits with status 1. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER_BYTES = 65536, NEEDLE_BYTES_MAX = 256 };

static char buffer[NEEDLE_BYTES_MAX + BUFFER_BYTES];

static int fail(const char *what) { perror(what); return 2; }

int main(int argc, char **argv)
{
    if (argc != 5 || strlen(argv[3]) == 0 || strlen(argv[3]) > NEEDLE_BYTES_MAX) {
        fprintf(stderr, "usage: receiver PORT PATH NEEDLE COUNT_FILE\n");
        return 2;
    }
    const char *needle = argv[3];
    size_t needle_len = strlen(needle);

    int file = open(argv[4], O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, 4096) < 0) return fail(argv[4]);
    volatile uint64_t *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (words == MAP_FAILED) return fail("mmap");

    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) return fail("connect");

    int len = snprintf(buffer, sizeof buffer,
        "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nAccept: text/event-stream\r\n\r\n", argv[2], argv[1]);
    if (write(fd, buffer, (size_t)len) != len) return fail("write");

    /* The head is a few lines. Events that arrive in the same reads are counted as well. */
    size_t kept = 0;
    for (;;) {
        ssize_t got = read(fd, buffer + kept, sizeof buffer - kept);
        if (got <= 0) return 1;
        words[2]++;
        size_t end = kept + (size_t)got;
        if (words[1] == 0) {
            if (memmem(buffer, end, "\r\n\r\n", 4) == NULL) {
                if (end == sizeof buffer) return 1;
                kept = end;
                continue;
            }
            words[1] = 1;
        }
        uint64_t found = 0;
        char *at = buffer, *hit;
        while ((hit = memmem(at, (size_t)(buffer + end - at), needle, needle_len)) != NULL) {
            found++;
            at = hit + needle_len;
        }
        words[0] += found;
        /* Keep the last bytes: this read may have split a needle. */
        size_t rest = (size_t)(buffer + end - at);
        kept = rest < needle_len - 1 ? rest : needle_len - 1;
        memmove(buffer, buffer + end - kept, kept);
    }
}
