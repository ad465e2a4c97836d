// Elementary functions in double for training, with the same bits on any processor and with any C
// library: glibc chooses variants with or without FMA by processor, whose last bits differ. These
// consist of additions, multiplications and divisions as rounded by IEEE 754, in a fixed order (the
// build forbids contraction). The error is at most 2 units in the last place. NaN gives NaN, but
// x^0 is 1 for any x.
#pragma once

double drv_exp(double x); // infinity above 709.78, 0 below -745.2
double drv_log(double x); // of 0 -infinity, below 0 NaN
// x^y for x >= 0, as exp(y ln x): the relative error is (2 + |y ln x|) 2^-52. 0^y is 0 for y > 0,
// 1 for 0, and infinity for y < 0.
double drv_pow(double x, double y);
// Sine and cosine of an angle in rad, |x| < 2^31; the absolute error is 2^-52.
double drv_sin(double x);
double drv_cos(double x);
