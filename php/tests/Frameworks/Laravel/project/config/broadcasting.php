<?php

return ['default' => 'fermata', 'connections' => ['fermata' => ['driver' => 'fermata']
    + (getenv('TEST_ECHO') ? ['key' => 'app-key', 'secret' => 'app-secret', 'prefix' => 'echo.', 'options' => ['clientEvents' => false]] : [])]];
