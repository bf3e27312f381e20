const NEAR = 40;

/**
 * Keeps a scroller at the end of its content as the content grows. It stops when the reader scrolls back or unfolds
 * something, and starts again when the reader scrolls to the end.
 */
export function stickToBottom(scroller: HTMLElement, content: HTMLElement): void {
  let atEnd = true;
  let before = 0;
  scroller.addEventListener('scroll', () => {
    const { scrollTop, scrollHeight, clientHeight } = scroller;
    if (scrollHeight - scrollTop - clientHeight < NEAR) atEnd = true;
    else if (scrollTop < before) atEnd = false;
    before = scrollTop;
  });
  scroller.addEventListener('click', ({ target }) => {
    if (target instanceof Element && target.closest('summary') !== null) atEnd = false;
  });
  const follow = new ResizeObserver(() => {
    if (atEnd) scroller.scrollTop = scroller.scrollHeight;
  });
  follow.observe(content);
  follow.observe(scroller);
}
