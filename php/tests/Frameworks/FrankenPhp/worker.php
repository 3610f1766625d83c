<?php

// A worker script as in FrankenPHP's documentation.

ignore_user_abort(true);

date_default_timezone_set('Pacific/Auckland');
$folder = getenv('TEST_FOLDER');
$booted = getmypid();
$handled = 0;
session_save_path($folder);

function shown_once(): string
{
    return 'once';
}

$handler = static function () use (&$handled, $folder, $booted): void {
    $handled++;
    switch (strtok($_SERVER['REQUEST_URI'], '?')) {
        case '/globals':
            header('Content-Type: application/json');
            echo json_encode([$_GET, $_POST, $_COOKIE, $_SERVER['REQUEST_METHOD'], file_get_contents('php://input'), PHP_SAPI,
                date_default_timezone_get(), getmypid() !== $booted, $_SERVER['FRANKENPHP_WORKER'] ?? null]);
            break;
        case '/count':
            echo $handled;
            break;
        case '/headers':
            http_response_code(418);
            header('X-One: 1');
            header('X-One: 2', false);
            setcookie('a', 'b');
            header('X-Asked: ' . frankenphp_request_headers()['X-Name']);
            header('X-Seen: ' . implode(',', array_keys(frankenphp_response_headers())));
            echo 'printed';
            break;
        case '/session':
            session_start();
            $_SESSION['seen'] = ($_SESSION['seen'] ?? 0) + 1;
            echo $_SESSION['seen'];
            break;
        case '/session-written':
            session_set_save_handler(new class extends SessionHandler {
                public function write(string $id, string $data): bool
                {
                    header('X-Written: ' . $data);
                    return parent::write($id, $data);
                }
            });
            session_start();
            $_SESSION['user'] = 'ada';
            echo 'page';
            break;
        case '/upload':
            $file = $_FILES['file'];
            echo json_encode([$file['name'], $file['size'], is_uploaded_file($file['tmp_name']),
                move_uploaded_file($file['tmp_name'], "$folder/moved"), file_get_contents("$folder/moved")]);
            break;
        case '/buffer':
            ob_start();
            echo 'inner';
            echo strtoupper(ob_get_clean());
            ob_start();
            echo ' left open';
            break;
        case '/ended-buffers':
            echo 'first';
            while (ob_get_level() > 0) {
                ob_end_flush();
            }
            echo ' second';
            break;
        case '/nested':
            frankenphp_handle_request(static function (): void {});
            break;
        case '/wait':
            usleep(20_000);
            echo 'waited';
            break;
        case '/finish':
            echo 'finished';
            frankenphp_finish_request();
            file_put_contents("$folder/finished", 'after');
            echo 'lost';
            break;
        case '/publish':
            echo mercure_publish(['https://example.com/books/1'], 'new title');
            break;
        case '/throw':
            throw new RuntimeException('thrown');
        case '/uncaught':
            throw new LogicException('nobody catches this');
        case '/exit':
            header('X-Exit: yes');
            echo 'said';
            exit(0);
        default:
            echo shown_once();
    }
};

for ($count = 0; $count < 1000; $count++) {
    try {
        $goesOn = frankenphp_handle_request($handler);
    } catch (RuntimeException $error) {
        file_put_contents("$folder/caught", $error->getMessage());
        $goesOn = true;
    }
    file_put_contents("$folder/terminated", (string) $handled);
    gc_collect_cycles();
    if (!$goesOn) {
        break;
    }
}
file_put_contents("$folder/shutdown", 'yes');
