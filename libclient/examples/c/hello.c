/* The smallest program: connects, opens a file, and prints its first bytes with blocking calls.
 *
 *     gcc -std=c99 hello.c $(pkg-config --cflags --libs nfsrdma) -o hello
 *     ./hello nfs://server/export/file
 */
#include <nfsrdma/nfsrdma.h>
#include <stdio.h>

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: %s nfs://server/export/file\n", argv[0]);
    return 2;
  }
  char data[4096];
  int64_t count = -1;
  nfsrdma_error* error = NULL;
  nfsrdma_file* file = NULL;
  nfsrdma_client* client = nfsrdma_connect(argv[1], NULL, &error);
  if (client != NULL &&
      nfsrdma_open(nfsrdma_root(client), nfsrdma_path(client), NFSRDMA_READ, 0, &file, NULL, &error) == 0) {
    count = nfsrdma_pread(file, data, sizeof data, 0, NULL, &error);
  }
  if (count >= 0) {
    fwrite(data, 1, (size_t)count, stdout);
  } else {
    fprintf(stderr, "%s\n", nfsrdma_error_text(error));
  }
  nfsrdma_error_free(error);
  nfsrdma_file_free(file);
  nfsrdma_client_free(client);
  return count < 0;
}
