<?php

return ['paths' => [dirname(__DIR__) . '/views'], 'compiled' => getenv('TEST_FOLDER') . '/views'];
