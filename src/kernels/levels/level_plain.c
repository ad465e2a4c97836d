// The level of plain C: the kernels of this folder for any processor, as one table.
#include "kernels/levels/level_float.h"
#include "kernels/levels/level_table.h"

LEVEL_TABLE(plain);
