<?php

return [
    'tables' => ['example:3' => ['name' => 'string:10', 'votes' => 'int', 'score' => 'float']],
    'cache' => ['rows' => 8, 'bytes' => 1000],
];
