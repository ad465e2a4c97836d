// The level of plain C: the kernels of this folder for any processor, as one table.
#include "kernels/x86/level_float.h"
#include "kernels/x86/level_table.h"

LEVEL_TABLE(plain);
