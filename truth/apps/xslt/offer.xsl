<?xml version="1.0"?>
<!-- The valves of a hall with their prices, which are in a document of their own, named by the web server. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="html" indent="no"/>
  <xsl:param name="prices"/>
  <xsl:key name="price" match="price" use="@valve"/>
  <xsl:variable name="list" select="document($prices)"/>
  <xsl:template match="/stock">
    <html><body><ul><xsl:apply-templates select="valve"/></ul></body></html>
  </xsl:template>
  <xsl:template match="valve">
    <xsl:variable name="id" select="@id"/>
    <li>
      <xsl:value-of select="."/>
      <xsl:for-each select="$list">: <xsl:value-of select="key('price', $id)"/></xsl:for-each>
    </li>
  </xsl:template>
</xsl:stylesheet>
