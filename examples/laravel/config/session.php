<?php

return [
    'driver' => env('SESSION_DRIVER', 'file'), 'lifetime' => 120, 'expire_on_close' => false, 'encrypt' => false, 'files' => storage_path('sessions'), 'lottery' => [2, 100],
    'cookie' => 'notes_session', 'path' => '/', 'domain' => null, 'secure' => false, 'http_only' => true, 'same_site' => 'lax', 'store' => null, 'connection' => null,
];
