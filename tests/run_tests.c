// The main function of the tests that have none of their own.
#include "harness.h"

int main(void) {
    return tests_run();
}
