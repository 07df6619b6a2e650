// See line_editor.h. The only file that includes libedit.
#include "cli/line_editor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>

#include "cli/interrupt.h"
#include "cli/local.h"
#include "cli/terminal.h"

#ifdef NFSRDMA_LIBEDIT
#include <histedit.h>

#include <clocale>
#include <cwchar>
#endif

namespace nfsrdma::cli {
namespace {

void draw_nothing() {}

/// Waits for a byte of standard input. Returns 1, 0 at the end, or -1 with errno; EINTR after a signal. Calls
/// `draw` if the terminal must be drawn again.
template <class Draw = void (*)()>
int read_byte(char& c, Draw draw = draw_nothing) {
  while (true) {
    std::array<pollfd, 3> ends{
        {{STDIN_FILENO, POLLIN, 0}, {interrupt::fd(), POLLIN, 0}, {redraw_fd(), POLLIN, 0}}};
    if (::poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) return -1;
    if (must_draw_again()) draw();
    if (interrupt::raised()) errno = EINTR;
    if (interrupt::raised()) return -1;
    if (ends[0].revents == 0) continue;
    const ssize_t count = ::read(STDIN_FILENO, &c, 1);
    if (count >= 0 || errno != EINTR) return static_cast<int>(count);
  }
}

LineEditor::Input read_plain(std::string& line) {
  line.clear();
  char c = 0;
  int count = 0;
  while ((count = read_byte(c)) == 1 && c != '\n') line += c;
  if (count < 0 && interrupt::raised()) return LineEditor::Input::interrupted;
  return count == 1 || !line.empty() ? LineEditor::Input::line : LineEditor::Input::end;
}

}  // namespace

std::string history_path() {
  std::string state;
  if (const char* const set = std::getenv("XDG_STATE_HOME"); set != nullptr && *set == '/') state = set;
  const char* const home = std::getenv("HOME");
  if (state.empty() && home != nullptr && *home == '/') state = std::string(home) + "/.local/state";
  return state.empty() ? "" : state + "/nfsrdma/history";
}

#ifdef NFSRDMA_LIBEDIT

namespace {

constexpr int most_history_lines = 1000;
constexpr std::size_t screen_width = 80;

/// The user's locale for the time of a call of libedit. The rest of the program stays in the "C" locale.
class UserLocale {
 public:
  UserLocale() : locale_(::newlocale(LC_CTYPE_MASK, "", nullptr)) {
    if (locale_ != nullptr) before_ = ::uselocale(locale_);
  }
  ~UserLocale() {
    if (locale_ == nullptr) return;
    ::uselocale(before_);
    ::freelocale(locale_);
  }
  UserLocale(const UserLocale&) = delete;
  UserLocale& operator=(const UserLocale&) = delete;

 private:
  locale_t locale_;
  locale_t before_ = nullptr;
};

/// libedit calls this for each character.
int read_character(EditLine* edit, wchar_t* out) {
  std::mbstate_t state{};
  Prompt::note_state();
  const auto draw = [edit] {
    ::el_resize(edit);
    ::el_set(edit, EL_REFRESH);
  };
  while (true) {
    char c = 0;
    const int count = read_byte(c, draw);
    if (count != 1) return count;
    const std::size_t length = std::mbrtowc(out, &c, 1, &state);
    if (length == static_cast<std::size_t>(-2)) continue;  // more bytes follow
    if (length == static_cast<std::size_t>(-1)) *out = L'?';
    return 1;
  }
}

std::size_t characters_in(const std::string& text) {
  const std::size_t count = std::mbstowcs(nullptr, text.c_str(), 0);
  return count == static_cast<std::size_t>(-1) ? text.size() : count;
}

/// Makes the file with its directories. Returns false if that cannot be done.
bool make_private(const std::string& path) {
  std::error_code fault;
  const std::filesystem::path directory = std::filesystem::path(path).parent_path();
  const bool is_new = std::filesystem::create_directories(directory, fault);
  if (is_new) ::chmod(directory.c_str(), 0700);
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  return file.get() >= 0 && ::fchmod(file.get(), 0600) == 0;
}

std::string in_columns(const std::vector<std::string>& names) {
  std::size_t width = 2;
  for (const std::string& name : names) width = std::max(width, name.size() + 2);
  const std::size_t columns = std::max<std::size_t>(1, screen_width / width);
  std::string out = "\n";
  for (std::size_t i = 0; i < names.size(); ++i) {
    out += names[i];
    const bool ends_row = (i + 1) % columns == 0 || i + 1 == names.size();
    out += ends_row ? "\n" : std::string(width - names[i].size(), ' ');
  }
  return out;
}

}  // namespace

class LineEditor::Terminal {
 public:
  explicit Terminal(Completer completer)
      : completer_(std::move(completer)),
        edit_(::el_init("nfsrdma-cli", stdin, stdout, stderr)),
        history_(::history_init()),
        path_(history_path()) {
    if (edit_ == nullptr || history_ == nullptr) return;
    ::history(history_, &event_, H_SETSIZE, most_history_lines);
    ::history(history_, &event_, H_SETUNIQUE, 1);
    if (!path_.empty() && make_private(path_)) ::history(history_, &event_, H_LOAD, path_.c_str());
    ::el_set(edit_, EL_CLIENTDATA, this);
    ::el_set(edit_, EL_EDITOR, "emacs");
    ::el_set(edit_, EL_HIST, &::history, history_);
    ::el_set(edit_, EL_PROMPT, &Terminal::prompt);
    ::el_set(edit_, EL_GETCFN, &read_character);
    ::el_set(edit_, EL_ADDFN, "nfsrdma-complete", "completes a word", &Terminal::complete);
    ::el_set(edit_, EL_BIND, "^I", "nfsrdma-complete", nullptr);
    ::el_set(edit_, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    ::el_source(edit_, nullptr);  // the user's ~/.editrc
  }
  ~Terminal() {
    if (history_ != nullptr && !path_.empty() && make_private(path_))
      ::history(history_, &event_, H_SAVE, path_.c_str());
    if (history_ != nullptr) ::history_end(history_);
    if (edit_ != nullptr) ::el_end(edit_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  [[nodiscard]] bool works() const { return edit_ != nullptr && history_ != nullptr; }

  Input read(const std::string& prompt, std::string& line) {
    const UserLocale locale;
    const Prompt state_of_terminal;
    prompt_ = prompt;
    int count = 0;
    const char* const text = ::el_gets(edit_, &count);
    if (text == nullptr) write_to_terminal("\n");
    if (text == nullptr) return interrupt::raised() ? Input::interrupted : Input::end;
    line = text;
    if (line.ends_with('\n')) line.pop_back();
    if (!line.empty() && line[0] != ' ') ::history(history_, &event_, H_ENTER, line.c_str());
    return Input::line;
  }

 private:
  static Terminal& of(EditLine* edit) {
    void* self = nullptr;
    ::el_get(edit, EL_CLIENTDATA, &self);
    return *static_cast<Terminal*>(self);
  }
  static char* prompt(EditLine* edit) { return of(edit).prompt_.data(); }
  static unsigned char complete(EditLine* edit, int /*character*/) {
    const LineInfo* const info = ::el_line(edit);
    const std::string line(info->buffer, info->cursor);
    const Completion found = of(edit).completer_(line);
    if (found.names.empty()) return CC_REFRESH_BEEP;
    const std::string word = line.substr(found.begin);
    if (found.replacement == word) {
      if (found.names.size() > 1) write_to_terminal(in_columns(found.names));
      return CC_REDISPLAY;
    }
    ::el_deletestr(edit, static_cast<int>(characters_in(word)));
    return ::el_insertstr(edit, found.replacement.c_str()) == 0 ? CC_REFRESH : CC_REFRESH_BEEP;
  }

  const Completer completer_;
  EditLine* const edit_;
  History* const history_;
  const std::string path_;
  HistEvent event_{};
  std::string prompt_;
};

#else

class LineEditor::Terminal {
 public:
  explicit Terminal(const Completer&) {}
  [[nodiscard]] static bool works() { return false; }
  static Input read(const std::string&, std::string&) { return Input::end; }
};

#endif

LineEditor::LineEditor(Completer completer, bool is_interactive) : is_interactive_(is_interactive) {
  if (!is_interactive) return;
  terminal_ = std::make_unique<Terminal>(std::move(completer));
  if (!terminal_->works()) terminal_.reset();
}

LineEditor::~LineEditor() = default;

LineEditor::Input LineEditor::read(const std::string& prompt, std::string& line) {
  if (terminal_) return terminal_->read(prompt, line);
  if (is_interactive_) write_to_terminal(prompt);
  return read_plain(line);
}

}  // namespace nfsrdma::cli
