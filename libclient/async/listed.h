// An entry in a list of pointers, there for as long as the Listed lives, also where an exception ends that.
//
//     const Listed<Waiter> listed(waiters_, me);
#pragma once

#include <list>

namespace nfsrdma::async {

template <class T>
class Listed {
 public:
  Listed(std::list<T*>& list, T& one) : list_(list), at_(list.insert(list.end(), &one)) {}
  ~Listed() { list_.erase(at_); }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;

 private:
  std::list<T*>& list_;
  const typename std::list<T*>::iterator at_;
};

}  // namespace nfsrdma::async
