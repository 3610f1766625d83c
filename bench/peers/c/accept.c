/* C server of seed 000: accept, read, write, close, one client after another.
 *
 * Unlike the seed, it also forwards a constant message to one held receiver. This gives the message row a floor as well: the cost
 * of the system calls.
 *
 * The seed's listen backlog of 5 is raised to the system's maximum: with a full backlog the kernel drops handshakes, and the row
 * would measure retransmissions. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUEST_BYTES_MAX = 256, PAGE_BYTES_MAX = 65536 };

static const char head[] = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html; charset=UTF-8\r\n\r\n";

static const char accepted[] = "HTTP/1.1 202 Accepted\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
static const char stream[] = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n";
static const char message[] = "data: mary: hello\n\n";

static char answer[sizeof head + PAGE_BYTES_MAX];

static void die(const char *what) { perror(what); exit(1); }

/* A disconnected client is no error: continue with the next one. */
static void send_all(int fd, const char *bytes, size_t len)
{
    if (fd >= 0) (void)!send(fd, bytes, len, MSG_NOSIGNAL);
}

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

    int receiver = -1;
    for (;;) {
        char request[REQUEST_BYTES_MAX + 1] = "";
        int client = accept(listener, NULL, NULL);
        if (client < 0) continue;
        ssize_t got = read(client, request, REQUEST_BYTES_MAX);
        if (got <= 0) {
            close(client);
        } else if (strncmp(request, "GET / ", 6) == 0) {
            send_all(client, answer, answer_bytes);
            close(client);
        } else if (strncmp(request, "GET /msg/", 9) == 0) {
            send_all(client, accepted, sizeof accepted - 1);
            close(client);
            send_all(receiver, message, sizeof message - 1);
        } else {
            if (receiver >= 0) close(receiver);
            receiver = client;
            send_all(receiver, stream, sizeof stream - 1);
        }
    }
}
