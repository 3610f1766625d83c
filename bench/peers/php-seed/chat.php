<?php

declare(strict_types=1);

// The chat server of seed 000, rewritten with the same steps in the same order, so that it costs the same. It accepts
// and reads with blocking calls in a stream_select loop, searches the first 1024 bytes of a request with strpos, and
// shuts down a sender's connection without a response before it delivers the message.

$page = file_get_contents($argv[2]);
$listener = stream_socket_server("tcp://127.0.0.1:{$argv[1]}", $code, $message,
    STREAM_SERVER_BIND | STREAM_SERVER_LISTEN, stream_context_create(['socket' => ['backlog' => 1024]]));
if ($listener === false) {
    exit("$message\n");
}

$streams = [$listener]; // the listener, then every held tab
$owners = [''];         // user of the stream with the same key
$tabs = [];             // user => list of its streams
$kept = [];             // user => text received while offline

while (true) {
    $readable = $streams;
    $writable = $except = null;
    if (stream_select($readable, $writable, $except, 5) === false) {
        break;
    }
    foreach ($readable as $stream) {
        if ($stream !== $listener) {
            $data = fread($stream, 1024);
            if ($data !== '' && $data !== false) {
                continue;
            }
            stream_socket_shutdown($stream, STREAM_SHUT_RDWR);
            $key = array_search($stream, $streams, true);
            $user = $owners[$key];
            unset($streams[$key], $owners[$key]);
            unset($tabs[$user][array_search($stream, $tabs[$user], true)]);
            if ($tabs[$user] === []) {
                unset($tabs[$user]);
                foreach ($streams as $other => $tab) {
                    if ($other !== 0) {
                        fwrite($tab, "data: $user has left.\n\n");
                    }
                }
            }
            continue;
        }

        $client = stream_socket_accept($listener);
        if ($client === false) {
            continue;
        }
        $request = fread($client, 1024);
        if ($request === false || $request === '') {
            continue;
        }

        if (strpos($request, 'GET / ') === 0) {
            fwrite($client, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html; charset=UTF-8\r\n\r\n");
            fwrite($client, $page);
            stream_socket_shutdown($client, STREAM_SHUT_RDWR);
        } elseif (strpos($request, 'GET /msg/') === 0) {
            stream_socket_shutdown($client, STREAM_SHUT_RDWR);
            if (preg_match('!GET /msg/([^/]+)/(\S+)!', $request, $match) !== 1) {
                continue;
            }
            $user = $match[1];
            $text = urldecode($match[2]);
            if (!strpos($text, ' ')) {
                continue;
            }
            [$target, $text] = explode(' ', $text, 2);
            if ($target === 'all') {
                foreach ($streams as $key => $tab) {
                    if ($key !== 0) {
                        fwrite($tab, "data: $user to all: $text\n\n");
                    }
                }
            } elseif (isset($tabs[$target])) {
                if ($target !== $user) {
                    foreach ($tabs[$target] as $tab) {
                        fwrite($tab, "data: $user: $text\n\n");
                    }
                }
                foreach ($tabs[$user] ?? [] as $tab) {
                    fwrite($tab, "data: You to $target: $text\n\n");
                }
            } else {
                $kept[$target] = ($kept[$target] ?? '') . "data: $user (" . date('Y-m-d H:i') . "): $text\n\n";
                foreach ($tabs[$user] ?? [] as $tab) {
                    fwrite($tab, "data: You to $target (offline): $text\n\n");
                }
            }
        } elseif (strpos($request, 'text/event-stream') === false) {
            stream_socket_shutdown($client, STREAM_SHUT_RDWR);
        } elseif (preg_match('!GET /(\S+)!', $request, $match) === 1) {
            $user = $match[1];
            fwrite($client, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n");
            fwrite($client, "data: Welcome $user!\n\n");
            fwrite($client, 'data: now online: ' . implode(', ', array_keys($tabs)) . "\n\n");
            if (isset($kept[$user])) {
                fwrite($client, $kept[$user]);
                unset($kept[$user]);
            }
            foreach ($streams as $key => $tab) {
                if ($key !== 0) {
                    fwrite($tab, "data: $user has joined.\n\n");
                }
            }
            $streams[] = $client;
            $owners[] = $user;
            $tabs[$user][] = $client;
        }
    }
}
