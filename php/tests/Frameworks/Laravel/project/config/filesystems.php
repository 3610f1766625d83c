<?php

return ['default' => 'local', 'disks' => [], 'links' => [dirname(__DIR__) . '/public/storage' => dirname(__DIR__) . '/stored']];
