// Reads an ELF header and its table of segments (System V ABI, chapters 4 and 5; elf(5)).
#include "backend/pjrt/runtime/plugin_file.h"

#include <elf.h>
#include <string.h>

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_NONE }; // any
#endif

static drv_status check_header(const Elf64_Ehdr *h, size_t n) {
    if (n < sizeof *h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 ||
            h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_type != ET_DYN)
        return drv_fail(DRV_E_DEVICE, "it is not a 64-bit shared library");
    if (MACHINE != EM_NONE && h->e_machine != MACHINE)
        return drv_fail(DRV_E_DEVICE, "it is for another processor (ELF machine %d, expected %d)",
                h->e_machine, MACHINE);
    if (h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phnum == 0)
        return drv_fail(DRV_E_DEVICE, "its table of segments is damaged");
    return DRV_OK;
}

drv_status plugin_file_check(const unsigned char *p, size_t n) {
    Elf64_Ehdr header = {0};
    memcpy(&header, p, n < sizeof header ? n : sizeof header);
    DRV_TRY(check_header(&header, n));
    const size_t table = sizeof(Elf64_Phdr) * header.e_phnum;
    if (header.e_phoff > n || n - header.e_phoff < table)
        return drv_fail(DRV_E_DEVICE, "it is cut short: %zu bytes, without its table of segments",
                n);
    for (int i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        memcpy(&segment, p + header.e_phoff + sizeof segment * (size_t)i, sizeof segment);
        if (segment.p_type != PT_LOAD) continue;
        if (segment.p_offset > n || n - segment.p_offset < segment.p_filesz)
            return drv_fail(DRV_E_DEVICE, "it is cut short: %zu bytes, expected at least %llu", n,
                    (unsigned long long)(segment.p_offset + segment.p_filesz));
    }
    return DRV_OK;
}
