<?php

return ['default' => 'array', 'stores' => ['array' => ['driver' => 'array', 'serialize' => false], 'octane' => ['driver' => 'octane']], 'prefix' => ''];
