import { h } from '../render/element.ts';
import { ApiError, request } from '../runs-api.ts';

/** Asks for the token, exchanges it for a cookie, and begins the page again. */
export function showSignIn(page: Element): void {
  if (page.querySelector('.sign-in') !== null) return;
  const problem = h('p', { class: 'problem', role: 'alert' });
  const token = h('input', {
    type: 'password',
    id: 'token',
    name: 'token',
    required: true,
    autocomplete: 'current-password',
  });
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    problem.textContent = '';
    try {
      await request('/session', { token: token.value });
      location.reload();
    } catch (error) {
      problem.textContent =
        error instanceof ApiError && error.status === 401
          ? 'This is not the token this server was started with (AGENTCHART_TOKEN, or --token).'
          : error instanceof Error
            ? error.message
            : String(error);
      token.select();
    }
  };
  page.replaceChildren(
    h(
      'main',
      { class: 'sign-in' },
      h('h1', {}, 'Agentchart'),
      h('p', {}, 'This server was started with a token.'),
      h(
        'form',
        { onsubmit: submit },
        h('label', { for: 'token' }, 'Token'),
        token,
        h('button', { class: 'primary' }, 'Sign in'),
      ),
      problem,
    ),
  );
  token.focus();
}
