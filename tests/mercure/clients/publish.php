<?php

// Publishes with symfony/mercure, and prints the ids returned by the hub.
declare(strict_types=1);

use Symfony\Component\HttpClient\HttpClient;
use Symfony\Component\Mercure\Hub;
use Symfony\Component\Mercure\Jwt\StaticTokenProvider;
use Symfony\Component\Mercure\Update;

[, $autoload, $url, $secret] = $argv;
require $autoload;
require_once 'Symfony/Component/HttpClient/autoload.php';

$part = static fn (array $data): string => rtrim(strtr(base64_encode(json_encode($data)), '+/', '-_'), '=');
$signed = $part(['alg' => 'HS256', 'typ' => 'JWT']) . '.' . $part(['mercure' => ['publish' => ['*']]]);
$token = $signed . '.' . rtrim(strtr(base64_encode(hash_hmac('sha256', $signed, $secret, true)), '+/', '-_'), '=');

$hub = new Hub($url, new StaticTokenProvider($token), null, null, HttpClient::create());
$book = 'https://example.com/books/1';
echo $hub->publish(new Update($book, 'public')), "\n";
echo $hub->publish(new Update(['https://example.com/other', $book], 'private', true, 'urn:mine', 'added')), "\n";
$hub->publish(new Update('https://example.com/users/1', 'for others', true));
echo $hub->publish(new Update($book, 'last', retry: 100)), "\n";
