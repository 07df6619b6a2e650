// The macro that makes a declaration visible outside the shared library.
#pragma once
#define NFSRDMA_API __attribute__((visibility("default")))
