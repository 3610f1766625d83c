<?php

return ['default' => 'fermata', 'connections' => ['fermata' => ['driver' => 'fermata']]];
