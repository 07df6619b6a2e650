/* libnfsrdma for fio's engine: engine.c is C because fio's headers are, session.cpp is C++ because the library is, and this
 * is what they say to each other.
 *
 * A session is one Client and belongs to one job of fio; nothing here is thread-safe, and two sessions have nothing to do
 * with each other. Names of files are relative to the directory of the URL. What returns an int gives 0 or an errno; its
 * text has then been given to `report`, except where it says otherwise. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct session;
struct session_file;
/* One read, write, sync or trim at a time, of any size: what the server does not take in one goes in pieces. */
struct session_request;

/* Hears one sentence about each failure, and each trouble that the library mends. */
typedef void (*session_report)(const char* text);

/* `options`: as on a command line ("vers=3,rsize=65536"), or null. */
int session_begin(const char* url, const char* options, session_report report, struct session** out);
void session_end(struct session* session);
/* What was negotiated, in a few words. */
void session_describe(struct session* session, char* text, size_t size);

/* ENOENT is not reported. */
int session_size(struct session* session, const char* name, uint64_t* size);
int session_remove(struct session* session, const char* name);
/* With `creates` the directories on the way are made, too. */
int session_open(struct session* session, const char* name, bool writes, bool creates,
                 struct session_file** out);
/* Whatever it returns, the file is closed and the memory of its requests is out of the server's reach. */
int session_close(struct session_file* file, bool syncs);

/* It blocks. Answers to requests that arrive meanwhile are kept for session_wait(). */
int session_write_now(struct session_file* file, const void* data, size_t size, uint64_t offset);

/* `owner` is the caller's, for session_owner(). */
struct session_request* session_request_new(struct session* session, void* owner);
void session_request_free(struct session_request* request);
void* session_owner(const struct session_request* request);
/* They start a request. It may be sent only by session_send(), session_wait() or whatever blocks. */
void session_read(struct session_request* request, struct session_file* file, void* data, size_t size,
                  uint64_t offset);
enum session_writing {
  SESSION_COPIED,
  /* The library makes no copy. `data` must stay until the file is closed, and if the server forgets what it was sent, what
   * `data` holds by then is written. */
  SESSION_IN_PLACE,
  /* The bytes are on the server's disk when it has ended. */
  SESSION_STABLE
};
void session_write(struct session_request* request, struct session_file* file, const void* data, size_t size,
                   uint64_t offset, enum session_writing how);
/* What has been written is on the server's disk when it has ended. */
void session_sync(struct session_request* request, struct session_file* file);
/* Makes a hole of it. */
void session_trim(struct session_request* request, struct session_file* file, size_t size, uint64_t offset);
void session_send(struct session* session);
/* Waits until `min` requests have ended or `most` milliseconds have passed (negative: for as long as it takes), and gives
 * how many have ended, `max` at most: session_ended(session, 0) and so on, until the next session_wait(). */
unsigned session_wait(struct session* session, unsigned min, unsigned max, long most);
struct session_request* session_ended(struct session* session, unsigned index);
/* Of one that ended: an errno or 0, its text (until the next call of it), and the bytes that went. Nothing of it has been
 * reported. */
int session_error(const struct session_request* request);
const char* session_error_text(const struct session_request* request);
size_t session_moved(const struct session_request* request);
/* False: it has ended already. The library can cancel a file's requests only together: the others go with it, and the file
 * can only be closed then. */
bool session_cancel(struct session_request* request);

#ifdef __cplusplus
}
#endif
