/* load_manual: the long help of `weir load`, like a man page; its examples are run by tests/cases/load/manual.case. */
#ifndef WEIR_CLI_LOAD_MANUAL_H
#define WEIR_CLI_LOAD_MANUAL_H

extern const char load_manual[];

#endif
