/* The C server of seed 000: accept, read, write, close, one client after the other.
 *
 * The seed's queue of 5 waiting clients is raised to the system's, because a full queue makes the kernel drop
 * hand-shakes and then the row would measure retransmissions. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUEST_BYTES_MAX = 256, PAGE_BYTES_MAX = 65536 };

static const char head[] = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html; charset=UTF-8\r\n\r\n";

static char answer[sizeof head + PAGE_BYTES_MAX];

static void die(const char *what) { perror(what); exit(1); }

static size_t read_page(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) die(path);
    memcpy(answer, head, sizeof head - 1);
    size_t bytes = fread(answer + sizeof head - 1, 1, PAGE_BYTES_MAX, file);
    fclose(file);
    return sizeof head - 1 + bytes;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: accept PORT PAGE\n");
        return 2;
    }
    size_t answer_bytes = read_page(argv[2]);

    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[1])) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0) die("bind");
    if (listen(listener, SOMAXCONN) < 0) die("listen");

    for (;;) {
        char request[REQUEST_BYTES_MAX + 1] = "";
        int client = accept(listener, NULL, NULL);
        if (client < 0) continue;
        ssize_t got = read(client, request, REQUEST_BYTES_MAX);
        if (got > 0 && strstr(request, "GET / ") != NULL && write(client, answer, answer_bytes) < 0) perror("write");
        close(client);
    }
}
