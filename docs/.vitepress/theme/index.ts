/** The theme of the site: VitePress's own, in fonts of the reader's system. */
import theme from 'vitepress/theme-without-fonts';
import './style.css';

export default theme;
