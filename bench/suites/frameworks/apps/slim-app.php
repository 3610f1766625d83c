<?php

declare(strict_types=1);

// A route with a parameter and a JSON response.

use Psr\Http\Message\{ResponseInterface, ServerRequestInterface};

require_once __DIR__ . '/autoload.php';
require_once 'Slim/autoload.php';
require_once 'Nyholm/Psr7/autoload.php';

$app = new Slim\App(['settings' => ['addContentLengthHeader' => false]]);
$app->get('/books/{id}', function (ServerRequestInterface $request, ResponseInterface $response, array $arguments): ResponseInterface {
    $response->getBody()->write(json_encode(['id' => $arguments['id'], 'title' => "Book {$arguments['id']}"]));
    return $response->withHeader('Content-Type', 'application/json');
});

return $app;
