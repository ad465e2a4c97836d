// The version of this program. The number is defined only in CMakeLists.txt.
#pragma once

const char *drover_version(void); // "drover 0.1.0 (commit abc1234)"
const char *drover_number(void);  // "0.1.0"
const char *drover_commit(void); // "abc1234", "abc1234-dirty"; "unknown": it was built neither from
                                 // a git checkout nor from an archive of git
