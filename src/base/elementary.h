// Elementary functions in double for training, with the same bits on any processor and with any C
// library: glibc chooses variants with or without FMA by processor, whose last bits differ. These
// consist of additions, multiplications and divisions as rounded by IEEE 754, in a fixed order (the
// build forbids contraction). The error is at most 2 units in the last place. NaN gives NaN.
#pragma once

double drv_exp(double x); // infinity above 709.78, 0 below -745.2
double drv_log(double x); // of 0 -infinity, below 0 NaN
// x^y of x >= 0 by way of the logarithm: the relative error is (2 + |y ln x|) 2^-52. 0^y is 0 for
// y > 0, and 1 for 0.
double drv_pow(double x, double y);
// Return the sine and cosine of an angle in rad, |x| < 2^31; the absolute error is 2^-52.
double drv_sin(double x);
double drv_cos(double x);
