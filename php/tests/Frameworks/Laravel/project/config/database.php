<?php

return ['default' => 'sqlite', 'connections' => ['sqlite' => ['driver' => 'sqlite', 'database' => getenv('TEST_FOLDER') . '/database.sqlite', 'prefix' => '']]];
