// Included before every file (CMakeLists.txt): makes functions that overrun buffers or hide errors
// fail to compile.
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GNUC__
#pragma GCC poison strcpy strcat sprintf vsprintf strtok atoi atol atof gets
#endif
