// Marks what the shared library shows.
#pragma once
#define NFSRDMA_API __attribute__((visibility("default")))
