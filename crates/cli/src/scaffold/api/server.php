<?php

declare(strict_types=1);

use Fermata\{Request, Response, Server};
use Fermata\Exception\BadRequestException;

// Environment variables such as FERMATA_LISTEN override the settings given here.
$server = new Server(listen: 'http://127.0.0.1:8080');

// A file, so that all workers share the notes; use a database server in production.
$file = __DIR__ . '/notes.sqlite';
$open = static function () use ($file): PDO {
    $pdo = new PDO("sqlite:$file");
    $pdo->exec('CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL)');
    return $pdo;
};
// Each worker opens its own connection; workers must not share one opened here.
$database = static function () use ($open): PDO {
    static $pdo;
    return $pdo ??= $open();
};

$server->get('/', fn () => Response::json(['notes' => '/notes']));

$server->get('/notes', fn () => Response::json($database()->query('SELECT id, text FROM notes')->fetchAll(PDO::FETCH_ASSOC)));

$server->get('/notes/{id}', function (string $id) use ($database): Response {
    $query = $database()->prepare('SELECT id, text FROM notes WHERE id = ?');
    $query->execute([$id]);
    $note = $query->fetch(PDO::FETCH_ASSOC);
    return $note === false ? Response::json(['error' => 'no such note'], 404) : Response::json($note);
});

$server->post('/notes', function (Request $request) use ($database): Response {
    $note = $request->json();
    if (!is_array($note) || !is_string($note['text'] ?? null) || $note['text'] === '') {
        throw new BadRequestException('send {"text": "…"}');
    }
    $query = $database()->prepare('INSERT INTO notes (text) VALUES (?)');
    $query->execute([$note['text']]);
    $id = (int) $database()->lastInsertId();
    return Response::json(['id' => $id, 'text' => $note['text']], 201)->withHeader('Location', "/notes/$id");
});

$server->run();
